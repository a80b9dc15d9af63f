"""`PairwiseJudge`: a model that says which of two answers is better, asked in both orders."""

from dataclasses import dataclass
from typing import Literal

import anyio

from rollouthub.authoring.rewards.judge_verdict import REASONING, read_object, shown_value, verdict_schema
from rollouthub.authoring.rewards.shown_parts import Shown, parts_of
from rollouthub.authoring.rewards.verdict_question import Material, VerdictQuestion
from rollouthub.errors import VerifierError
from rollouthub.generation import Model, Sampling

Winner = Literal["A", "B", "tie"]
BETTER = "Which candidate answers the task better?"
_DUTY = """\
You are an impartial judge. You are shown a task and what two candidates, A and B, handed in, and say which of them is \
better by the criterion you are given, and by nothing else. Which of them is shown first says nothing about them."""
_FORM = f'{{"{REASONING}": a few sentences, "winner": "A", "B" or "tie"}}'
_SCHEMA = verdict_schema({"winner": {"type": "string", "enum": ["A", "B", "tie"]}})
_TEMPLATE = """\
The task that was given:
{question}

A reference, known to be right; no candidate has seen it:
{reference}

What candidate A handed in:
{A}

What candidate B handed in:
{B}

The criterion: {criterion}"""


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """The result of a comparison of two answers, asked in both orders."""

    share: float
    """The first answer's share: 1 if both orders agree on it, 0 if both agree on the second, else 0.5."""
    is_order_biased: bool
    """Whether both orders chose the answer at the same position: the position decided, not the answer."""
    reasoning: tuple[str, str]
    """The judge's explanations: in the order as given, and in the reverse order."""


class PairwiseJudge:
    """Asks a model which of two answers is better, once with each shown first; a win needs both orders to agree.

        judge = PairwiseJudge(self.models["judge"])
        compared = await judge.compare(submissions[0].final, submissions[1].final, question=prompt)

    `Tournament` ranks all samples of a group with it. An answer that cannot be parsed is sent back with the reason, up
    to `retries` times.
    """

    def __init__(
        self,
        model: Model,
        criterion: str = BETTER,
        *,
        retries: int = 2,
        sampling: Sampling | None = None,
        timeout_seconds: float = 120.0,
        most_characters: int = 50_000,
    ) -> None:
        """Set the judge's criterion and limits; an answer longer than `most_characters` loses its middle."""
        self._question = VerdictQuestion(model, retries, timeout_seconds)
        self._criterion, self._most = criterion, most_characters
        self._sampling = sampling or Sampling(temperature=0.0)

    async def compare(
        self, first: Shown, second: Shown, *, question: Shown | None = None, reference: str | None = None
    ) -> ComparedPair:
        """Compare two answers; media in them are shown to the judge. Equal ones are a tie, without asking the model.

        Raises:
            VerifierError: the model failed, or gave no valid verdict.
        """
        if parts_of(first) == parts_of(second):
            return ComparedPair(0.5, False, ("", ""))
        said: list[tuple[Winner, str] | VerifierError] = [VerifierError("not asked")] * 2

        async def ask(place: int, one: Shown, other: Shown) -> None:
            try:
                said[place] = await self._ask(one, other, question, reference)
            except VerifierError as error:
                said[place] = error

        async with anyio.create_task_group() as orders:
            orders.start_soon(ask, 0, first, second)
            orders.start_soon(ask, 1, second, first)
        verdicts: list[tuple[Winner, str]] = []
        for verdict in said:
            if isinstance(verdict, VerifierError):
                raise verdict
            verdicts.append(verdict)
        (straight, why), (swapped, why_swapped) = verdicts
        share = {("A", "B"): 1.0, ("B", "A"): 0.0}.get((straight, swapped), 0.5)
        return ComparedPair(share, straight == swapped != "tie", (why, why_swapped))

    async def _ask(self, one: Shown, other: Shown, question: Shown | None, reference: str | None) -> tuple[Winner, str]:
        pieces: dict[str, Shown | None] = {"question": question, "reference": reference, "A": one, "B": other}
        marked = Material.of({key: each for key, each in pieces.items() if each is not None}, _TEMPLATE, self._most)
        body = filled(_TEMPLATE, {**marked.blocks, "criterion": self._criterion})
        return await self._question.ask(marked.asked(_DUTY, body, _FORM), _read, _FORM, self._sampling, _SCHEMA)


def filled(template: str, blocks: dict[str, str]) -> str:
    """A template with its slots filled, one per paragraph; paragraphs whose slot has no value are left out."""
    paragraphs: list[str] = []
    for paragraph in template.split("\n\n"):
        before, opening, rest = paragraph.partition("{")
        name, closing, after = rest.partition("}")
        if not opening:
            paragraphs.append(paragraph)
        elif name in blocks:
            assert closing, "a slot ends"
            paragraphs.append(before + blocks[name] + after)
    return "\n\n".join(paragraphs)


def _read(text: str) -> tuple[Winner, str]:
    values = read_object(text, ["winner"])
    winner = values["winner"]
    if winner not in ("A", "B", "tie"):
        raise ValueError(f'"winner" must be "A", "B" or "tie", not {shown_value(winner)}')
    return winner, values[REASONING]
