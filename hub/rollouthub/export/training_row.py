"""Training rows: segments, with what their rollout says of them. Every trainer's record is made from these."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rollouthub.export.credit import WHOLE, Credit, turn_returns
from rollouthub.export.not_trainable import Need, NotTrainable, why_refused
from rollouthub.export.segment import Segment, segments
from rollouthub.rollout import Rollout, Stop


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One segment of a rollout that may be learnt from."""

    rollout: Rollout
    segment: Segment
    index: int
    """Which of the rollout's rows, in the order of their last turns."""
    count: int
    """How many rows the rollout makes."""
    returns: Sequence[float] = field(repr=False)
    """Of each turn of the rollout [turn], see `turn_returns`."""

    @property
    def reward(self) -> float:
        """The rollout's."""
        assert self.rollout.reward is not None
        return self.rollout.reward

    @property
    def components(self) -> dict[str, float]:
        """The parts of the reward, by name."""
        assert self.rollout.score is not None
        return {name: part.value for name, part in self.rollout.score.components.items()}

    @property
    def prompt_ids(self) -> list[int]:
        """What stands before the first sampled token."""
        return list(self.segment.token_ids)[: self.segment.prompt_length]

    @property
    def response_ids(self) -> list[int]:
        """Everything from the first sampled token: the policy's, and what the environment wrote between."""
        return list(self.segment.token_ids)[self.segment.prompt_length :]

    @property
    def response_mask(self) -> list[int]:
        """1 on what the policy sampled [response]."""
        return list(self.segment.loss_mask)[self.segment.prompt_length :]

    @property
    def response_logprobs(self) -> list[float]:
        """The sampler's log-probabilities, 0 where the environment wrote [response]."""
        return list(self.segment.logprobs)[self.segment.prompt_length :]

    @property
    def response_versions(self) -> list[int]:
        """The policy's version of each sampled token, -1 elsewhere [response]."""
        return list(self.segment.versions)[self.segment.prompt_length :]

    @property
    def turns(self) -> list[int]:
        """The turns that were sampled in it, in order."""
        return sorted(set(self.segment.turn_ids) - {-1})

    @property
    def is_last(self) -> bool:
        """Whether it is the rollout's last row."""
        return self.index == self.count - 1

    @property
    def is_truncated(self) -> bool:
        """Whether a limit cut the rollout short, not its agent."""
        return self.rollout.stop in _CUT

    @property
    def weight(self) -> float:
        """A share of one, so that a forked rollout counts no more than another."""
        return 1.0 / self.count


_CUT = (Stop.TURN_LIMIT, Stop.TOKEN_LIMIT, Stop.TIME_LIMIT, Stop.COST_LIMIT, Stop.CONTEXT_LIMIT, Stop.INTERRUPTED)


def training_rows(
    rollout: Rollout, credit: Credit = WHOLE, *, need: Need = "logprobs", suspect: bool = False
) -> list[TrainingRow]:
    """The rows of a rollout: one where every prompt went on from what was sampled, more where it forked.

    With `suspect`, also of one whose reward its verifier calls suspect.

    Raises:
        NotTrainable: it is not to be learnt from; says why, by name.
    """
    if (refused := why_refused(rollout, need, suspect=suspect)) is not None:
        raise NotTrainable(refused)
    rows, returns = segments(rollout), turn_returns(rollout, credit)
    return [TrainingRow(rollout, segment, index, len(rows), returns) for index, segment in enumerate(rows)]
