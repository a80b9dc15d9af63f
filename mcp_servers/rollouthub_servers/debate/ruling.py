"""The verdict on a debate: of a model that is asked twice, or of a rule over the quoted lines."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.authoring.rewards import Criterion, Judge
from rollouthub.generation import Model
from rollouthub_servers.debate.ledger import Sale, total

SEATS: tuple[str, ...] = ("first", "second")
MOST_CHARACTERS = 8000
"""Most characters of one speech that the judge reads."""
_QUESTION = """\
{question}

Debater 1 says: {first}. Debater 2 says: {second}. The judge has not seen the ledger. Lines said by "ledger" are true; \
what debaters say may not be."""
_CRITERION = Criterion(name="debater_1_is_right", question="Is it debater 1, rather than debater 2, who is right?")


@dataclass(frozen=True, slots=True)
class Speech:
    """A speech, or a quoted line of the ledger."""

    seat: str
    text: str
    quoted: Sale | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """The judge's verdict."""

    winner: str | None
    """The seat that won; None if the judge contradicts itself when the seats are swapped, or the quotes are even."""
    took_first: float | None = None
    """Share of verdicts that favoured the seat shown first; 0.5 for a consistent judge. None without a model."""
    why: str | None = None


async def ask_model(model: Model, question: str, people: Sequence[str], speeches: Sequence[Speech]) -> Ruling:
    """Ask a model twice, the second time with the two seats swapped.

    Raises:
        VerifierError: the model failed, or its verdict cannot be read.
    """
    judge = Judge(model, [_CRITERION])
    took: list[bool] = []
    reasons: list[str] = []
    for order in (SEATS, SEATS[::-1]):
        names = [people[SEATS.index(seat)] for seat in order]
        asked = _QUESTION.format(question=question, first=names[0], second=names[1])
        score = await judge.judge(_shown(speeches, order), question=asked)
        took.append(bool(score.passed))
        reasons += [score.feedback] if score.feedback else []
    winner = None if took[0] == took[1] else SEATS[took.index(True)]
    return Ruling(winner, sum(took) / 2, "\n".join(reasons) or None)


def weigh_quotes(people: Sequence[str], speeches: Sequence[Speech]) -> Ruling:
    """The winner is the seat whose person sold more in the quoted lines."""
    quoted = list(dict.fromkeys(speech.quoted for speech in speeches if speech.quoted is not None))
    totals = [total(quoted, person) for person in people]
    if totals[0] == totals[1]:
        return Ruling(None)
    return Ruling(SEATS[totals.index(max(totals))])


def _shown(speeches: Sequence[Speech], order: Sequence[str]) -> str:
    """The speeches as JSON lines, so that no debater can forge a speech of the other one."""
    names = {seat: f"debater {place}" for place, seat in enumerate(order, start=1)}
    lines = (
        {"by": names[speech.seat], "says": speech.text[:MOST_CHARACTERS]}
        if speech.quoted is None
        else {"by": "ledger", "says": str(speech.quoted), "quoted by": names[speech.seat]}
        for speech in speeches
    )
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
