"""What a trainer gets of a rollout: training rows, cut into stretches that one turn or the environment wrote."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from rollouthub.errors import HubError
from rollouthub.export.not_trainable import why_refused
from rollouthub.export.segment import Fork, Segment, segments
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, turn_number

MOST_ROWS, MOST_STRETCHES, MOST_VALUES = 40, 400, 256
"""Most rows of a rollout, stretches of a row, and values of a stretch that are listed."""
MOST_IDS = 4_000_000
"""Most prompt and output ids of a rollout whose rows are derived for a page."""
_WHY = {
    "start": "its seat had not spoken before",
    "seat": "it follows a turn of another seat",
    "history": "the conversation was restarted or changed",
    "branch": "another turn extends the same beginning",
    "gap": "the turn before has no engine ids",
    "drift": "the conversation went on, but its ids differ",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring tokens of a row that one turn sampled, or that the environment wrote."""

    turn: int | None
    """Index of the turn that sampled them; None for the prompt and what the environment wrote."""
    start: int
    """Index of its first token in the row."""
    ids: Sequence[int]
    mask: Sequence[int]
    logprobs: Sequence[float]
    versions: Sequence[int]

    @property
    def learnt(self) -> int:
        """Number of tokens to train on."""
        return sum(self.mask)

    @property
    def mean_logprob(self) -> float | None:
        """The mean of the known log-probabilities of sampled tokens."""
        known = [value for value in self.logprobs if not math.isnan(value)]
        return sum(known) / len(known) if self.turn is not None and known else None


@dataclass(frozen=True, slots=True)
class TrainingPiece:
    """One training row."""

    seat: str
    tokens: int
    learnt: int
    begins: str
    """Why the row does not extend another one, in words."""
    stretches: tuple[Stretch, ...]
    left: int
    """Number of stretches that are left out."""


@dataclass(frozen=True, slots=True)
class TrainingView:
    """The training rows of a rollout, or why it makes none."""

    pieces: tuple[TrainingPiece, ...]
    left: int
    """Number of rows that are left out."""
    refused: str
    """Why trainers do not get the rollout; empty if they do."""
    silent: tuple[tuple[int, str], ...]
    """Index of each turn that is in no row, and why."""


def training_view(rollout: Rollout) -> TrainingView:
    """Derive what a trainer gets, as exports and trainers do. Blocking: it takes time proportional to the prompts."""
    why = why_refused(rollout)
    silent = tuple(islice(_silent(rollout), MOST_STRETCHES))
    size = sum(
        len(ids) for turn in rollout.turns for ids in (turn.prompt_token_ids, turn.output_token_ids) if ids is not None
    )
    refused = "" if why is None else f"{why.reason} ({why.refusal.value})"
    if size > MOST_IDS:
        return TrainingView((), 0, refused or f"its {size:,} ids are too many to lay out here", silent)
    try:
        rows = segments(rollout)
    except (HubError, ValueError, KeyError) as error:  # a record whose arrays contradict each other
        return TrainingView((), 0, refused or f"no rows can be made of it: {error}", silent)
    return TrainingView(tuple(map(_piece, rows[:MOST_ROWS])), max(0, len(rows) - MOST_ROWS), refused, silent)


def _silent(rollout: Rollout) -> Iterator[tuple[int, str]]:
    learns = {turn.index for turn in rollout.policy_turns}
    for turn in rollout.turns:
        if turn.prompt_token_ids is None or turn.output_token_ids is None:
            yield turn.index, "its backend gave no token ids, and text is never tokenised again"
        elif turn.index not in learns:
            yield turn.index, "its seat is played by another model than the run's"


def _piece(row: Segment) -> TrainingPiece:
    stretches = list(islice(_stretches(row), MOST_STRETCHES + 1))
    total = len(list(groupby(row.turn_ids))) if len(stretches) > MOST_STRETCHES else len(stretches)
    kept = tuple(stretches[:MOST_STRETCHES])
    return TrainingPiece(row.agent, len(row.token_ids), sum(row.loss_mask), _begins(row.fork), kept, total - len(kept))


def _begins(fork: Fork | None) -> str:
    if fork is None or fork.kind == "start":
        return ""
    told = _WHY[fork.kind]
    if fork.turn is None:
        return told
    shares = f"; it shares {count(fork.shared, 'id')} with {turn_number(fork.turn)}" if fork.shared else ""
    return f"{told}{shares}" + (f", {fork.dropped:,} are dropped" if fork.dropped else "")


def _stretches(row: Segment) -> Iterator[Stretch]:
    ids, mask = list(row.token_ids), list(row.loss_mask)
    logprobs, versions = list(row.logprobs), list(row.versions)
    at = 0
    for turn, members in groupby(row.turn_ids):
        end = at + sum(1 for _ in members)
        arrays = (ids[at:end], mask[at:end], logprobs[at:end], versions[at:end])
        yield Stretch(None if turn < 0 else turn, at, *arrays)
        at = end
