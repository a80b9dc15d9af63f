"""`CreditJudge`: a model that judges how much each turn and each seat contributed to the outcome."""

from collections.abc import Sequence
from typing import Any, cast

from pydantic import Field, JsonValue

from rollouthub.authoring.rewards.judge_verdict import (
    REASONING,
    JudgedObject,
    object_schema,
    read_object,
    shown_value,
    storable,
    verdict_schema,
)
from rollouthub.authoring.rewards.pairwise_judge import filled
from rollouthub.authoring.rewards.reward_function import finite
from rollouthub.authoring.rewards.shown_parts import (
    LEFT_OUT,
    Parts,
    Shown,
    conversation_parts,
    question_of,
    reference_of,
    shortened,
)
from rollouthub.authoring.rewards.verdict_question import Material, VerdictQuestion
from rollouthub.errors import VerifierError
from rollouthub.generation import Model, Sampling
from rollouthub.messages import Media
from rollouthub.score import FiniteFloat, Score, Submission, SubmittedTurn
from rollouthub.task import Task
from rollouthub.values import Frozen

MOST_TURNS = 200
"""Most turns of an episode that a judge is shown."""
MOST_WORDS = 2000
"""Most characters of the judge's comment on one turn or seat."""
CREDITING = "Who did what for the outcome, and what was it worth?"
_LEFT_OUT = f" {LEFT_OUT.strip()} "
_DUTY = """\
You are an impartial critic. You are shown a task and all turns that were played on it, each with its number and the \
seat that took it, and say what each turn and each seat was worth for the outcome, by the criterion you are given. \
What a turn says of its own worth, or of another's, is no finding."""
_TEMPLATE = """\
The task that was given:
{question}

A reference, known to be right; nobody who played has seen it:
{reference}

The turns, one JSON line each:
{turns}

The criterion: {criterion}"""


class Credited(Frozen):
    """The credit and comment that the judge gives a turn, a seat or the team."""

    credit: FiniteFloat
    words: str = Field(max_length=MOST_WORDS)


class CreditVerdict(Frozen):
    """A valid answer of a credit judge."""

    reasoning: str
    team: Credited
    turns: dict[int, Credited]
    seats: dict[str, Credited]


class CreditJudge:
    """Asks a model for the credit of every turn and seat; itself a reward function, alone or in a `WeightedReward`.

        class Debate(Environment[EnvironmentConfig]):
            reads_turns = True

            async def verify(self, submission):
                return await CreditJudge(self.models["judge"])(self.task, submission)

    The team's credit is the reward, those of turns and seats are `turn_rewards` and `seat_rewards`, and the comments
    are in `metadata["credit"]` (after LLaMAC, arXiv:2311.13884). The answer must credit every turn and every seat
    exactly once, within the bounds; an answer that does not is sent back with the reason, up to `retries` times.
    """

    def __init__(
        self,
        model: Model,
        criterion: str = CREDITING,
        *,
        lowest: float = -1.0,
        highest: float = 1.0,
        retries: int = 2,
        sampling: Sampling | None = None,
        timeout_seconds: float = 120.0,
        most_characters: int = 100_000,
    ) -> None:
        """Set the judge's bounds: credit runs from `lowest` to `highest`. If all turns together are longer than
        `most_characters`, the middle of each is left out.

        Raises:
            ValueError: `lowest` is not below `highest`, or a bound is not finite.
        """
        check_bounds(lowest, highest)
        self._question = VerdictQuestion(model, retries, timeout_seconds)
        self._criterion, self._lowest, self._highest = criterion, lowest, highest
        self._most = most_characters
        self._sampling = sampling or Sampling(temperature=0.0)

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Credit the turns and seats of a submission.

        Raises:
            VerifierError: the submission has no turns, or too many; the model failed, or gave no valid answer.
        """
        turns = submission.turns
        if not 0 < len(turns) <= MOST_TURNS:
            raise VerifierError(
                f"a credit judge is shown 1 to {MOST_TURNS} turns, and the submission has {len(turns)}; an environment "
                "is given them where it says `reads_turns = True`",
                retryable=False,
            )
        pieces: dict[str, Shown] = {"question": question_of(task.public), "turns": self._shown(turns)}
        if (reference := reference_of(task)) is not None:
            pieces["reference"] = reference
        marked = Material.of(pieces, _TEMPLATE, 2 * self._most)
        form = self._form(turns)
        messages = marked.asked(_DUTY, filled(_TEMPLATE, {**marked.blocks, "criterion": self._criterion}), form)
        verdict = await self._question.ask(
            messages, lambda text: self._read(text, turns), form, self._sampling, self._schema(turns)
        )
        return _scored(verdict)

    def _shown(self, turns: Sequence[SubmittedTurn]) -> Parts:
        most = max(200, self._most // len(turns))
        pieces: list[str | Media] = []
        for place, turn in enumerate(turns):
            pieces.append("\n" if place else "")
            pieces.append(f"turn {turn.index}, seat {turn.seat!r}: ")
            pieces += shortened(conversation_parts((*turn.messages, turn.response)), most, _LEFT_OUT)
        return tuple(pieces)

    def _form(self, turns: Sequence[SubmittedTurn]) -> str:
        seats = ", ".join(repr(seat) for seat in _seats(turns))
        credit = f'"credit": a number from {self._lowest:g} to {self._highest:g}, "words": a sentence'
        by_turn = f'a list of {{"turn": its number, {credit}}} for each of the {len(turns)} turns'
        by_seat = f'a list of {{"seat": its name, {credit}}} for each of {seats}'
        return f'{{"{REASONING}": a few sentences, "team": {{{credit}}}, "turns": {by_turn}, "seats": {by_seat}}}'

    def _schema(self, turns: Sequence[SubmittedTurn]) -> dict[str, JsonValue]:
        number: JsonValue = {"type": "number", "minimum": self._lowest, "maximum": self._highest}
        credit: dict[str, JsonValue] = {"credit": number, "words": {"type": "string"}}
        indices: list[JsonValue] = [turn.index for turn in turns]
        seats: list[JsonValue] = [*_seats(turns)]
        by_turn = object_schema({"turn": {"type": "integer", "enum": indices}, **credit})
        by_seat = object_schema({"seat": {"type": "string", "enum": seats}, **credit})
        return verdict_schema(
            {
                "team": object_schema(credit),
                "turns": {"type": "array", "items": by_turn},
                "seats": {"type": "array", "items": by_seat},
            }
        )

    def _read(self, text: str, turns: Sequence[SubmittedTurn]) -> CreditVerdict:
        values = read_object(text, ["team", "turns", "seats"])
        return CreditVerdict(
            reasoning=values[REASONING],
            team=self._credited(values["team"], "team", ()),
            turns=self._each(values["turns"], "turn", [turn.index for turn in turns]),
            seats=self._each(values["seats"], "seat", _seats(turns)),
        )

    def _each(self, entries: object, key: str, names: Sequence[Any]) -> dict[Any, Credited]:
        """Name → credit, after a check that each name occurs exactly once."""
        if not isinstance(entries, list):
            raise ValueError(f'"{key}s" must be a list')
        found: dict[Any, Credited] = {}
        for entry in cast(list[object], entries):
            name: object = entry.values.get(key) if isinstance(entry, JudgedObject) else None
            if isinstance(name, bool) or name not in names or name in found:
                raise ValueError(
                    f'an entry of "{key}s" names {shown_value(name)}, which is no {key}, or was named before'
                )
            found[name] = self._credited(entry, f"{key} {name!r}", (key,))
        if missing := [name for name in names if name not in found]:
            raise ValueError(f'"{key}s" lacks {", ".join(map(repr, missing))[:200]}')
        return found

    def _credited(self, entry: object, what: str, more: Sequence[str]) -> Credited:
        if not isinstance(entry, JudgedObject):
            raise ValueError(f"{what} must be an object with credit and words")
        values = entry.only([*more, "credit", "words"])
        credit, words = values["credit"], values["words"]
        is_number = isinstance(credit, int | float) and not isinstance(credit, bool)
        if not is_number or not self._lowest <= credit <= self._highest:
            raise ValueError(
                f"the credit of {what} must be a number from {self._lowest:g} to {self._highest:g}, "
                f"not {shown_value(credit)}"
            )
        if not isinstance(words, str) or len(words) > MOST_WORDS:
            raise ValueError(f"the words on {what} must be text of at most {MOST_WORDS:,} characters")
        return Credited(credit=credit, words=storable(words))


def check_bounds(lowest: float, highest: float) -> None:
    """Check the bounds of credit.

    Raises:
        ValueError: `lowest` is not below `highest`, or a bound is not finite.
    """
    if not finite(lowest, "lowest") < finite(highest, "highest"):
        raise ValueError(f"credit from {lowest:g} to {highest:g} is none")


def _seats(turns: Sequence[SubmittedTurn]) -> list[str]:
    return list(dict.fromkeys(turn.seat for turn in turns))


def _scored(verdict: CreditVerdict) -> Score:
    words: dict[str, JsonValue] = {
        "team": verdict.team.words,
        "turns": {str(index): each.words for index, each in verdict.turns.items()},
        "seats": {seat: each.words for seat, each in verdict.seats.items()},
    }
    return Score(
        reward=verdict.team.credit,
        feedback=verdict.reasoning or None,
        turn_rewards={index: each.credit for index, each in verdict.turns.items()},
        seat_rewards={seat: each.credit for seat, each in verdict.seats.items()},
        metadata={"credit": words},
    )
