"""`SetFacts`: what the audit of a task must know of the other tasks of its set."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rollouthub.errors import HubError
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub_registry.audit.reference_answer import SeatScript, answer_of

FIRST, FIRST_IN_SANDBOXES = 40, 6
"""Number of tasks whose references are read; fewer where each opens a sandbox."""


def same(answer: str) -> str:
    """The answer without differences of case and space."""
    return " ".join(answer.lower().split())


@dataclass(frozen=True)
class SetFacts:
    """Answers and reference solutions of the first tasks of a set."""

    references: Mapping[str, SeatScript] = field(default_factory=dict[str, SeatScript])
    """Task id → its reference solution by seat."""
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task id → the final answer of its reference."""

    @property
    def most_frequent(self) -> str | None:
        """The answer that most tasks share; None if no two do."""
        counts = Counter(same(answer) for answer in self.answers.values())
        best, count = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        return next(each for each in self.answers.values() if same(each) == best) if count > 1 else None

    def answers_of_others(self, task_id: str, own: str, most: int = 3) -> list[tuple[str, str]]:
        """Ids and answers of other tasks whose answers differ from each other and from this one."""
        ordered = sorted(self.answers, key=lambda other: hashlib.sha256(f"{task_id}\0{other}".encode()).digest())
        found = {same(own): ("", "")}
        for other in ordered:
            if other != task_id:
                found.setdefault(same(self.answers[other]), (other, self.answers[other]))
        return [pair for pair in found.values() if pair[0]][:most]


async def read_facts(
    host: EnvironmentHost, cards: Sequence[TaskCard], seed_of: Mapping[str, int], deadlines: Deadlines
) -> SetFacts:
    """Read the references of these tasks; those that do not open are left out, for their own audit says so."""
    references: dict[str, SeatScript] = {}
    answers: dict[str, str] = {}
    for card in cards:
        if card.has_reference is False:
            continue
        try:
            async with host.open(card, seed=seed_of[card.public.id], deadlines=deadlines) as episode:
                script = {seat: tuple(await episode.reference(seat)) for seat in episode.seats}
        except HubError:
            continue
        if any(script.values()):
            references[card.public.id] = script
            answer = answer_of(script)
            if answer is not None:
                answers[card.public.id] = answer.text
    return SetFacts(references, answers)
