"""Training rows: segments with their rollout's rewards. The records of every trainer are made from these."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rollouthub.export.credit import WHOLE, Credit, turn_returns
from rollouthub.export.learning_seats import seat_id
from rollouthub.export.not_trainable import Need, NotTrainable, why_refused
from rollouthub.export.segment import Segment, segments
from rollouthub.rollout import Rollout, Stop


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One segment of a rollout that may be trained on."""

    rollout: Rollout
    segment: Segment
    index: int
    """The row's index among the rollout's rows, in the order of their last turns."""
    count: int
    """How many rows the rollout has in total."""
    returns: Sequence[float] = field(repr=False)
    """The return of each turn of the rollout [turn], see `turn_returns`."""

    @property
    def seat(self) -> str:
        """The seat whose turns the row has."""
        return self.segment.agent

    @property
    def trajectory_id(self) -> str:
        """The rollout's id, with the seat if it has a name of its own: the rows of a trajectory share it."""
        return seat_id(self.rollout.rollout_id, self.seat)

    @property
    def group_id(self) -> str:
        """The id of the group in which the row's reward is compared: the rollout's, with the seat as above."""
        return seat_id(self.rollout.group_id, self.seat)

    @property
    def reward(self) -> float:
        """The reward of the row's seat: the rollout's, unless the verifier rewarded seats separately."""
        reward = self.rollout.reward_of(self.segment.agent)
        assert reward is not None
        return reward

    @property
    def process_rewards(self) -> list[float]:
        """Rewards of turns and spans without the final reward, each on its last token; 0 elsewhere [response].

        A span of characters whose tokens are not on record counts with its turn, on the turn's last token.
        """
        turn_ids = self.segment.turn_ids.tolist()[self.segment.prompt_length :]
        first_of: dict[int, int] = {}
        last_of: dict[int, int] = {}
        for place, turn in enumerate(turn_ids):
            if turn >= 0:
                first_of.setdefault(turn, place)
                last_of[turn] = place
        rewards = [0.0] * len(turn_ids)
        own = {turn.index: turn.reward or 0.0 for turn in self.rollout.turns}
        for turn, place in last_of.items():
            rewards[place] += own[turn]
        for span in () if self.rollout.score is None else self.rollout.score.span_rewards:
            if span.turn in first_of:
                last = first_of[span.turn] + span.end - 1 if span.unit == "token" else last_of[span.turn]
                rewards[last] += span.reward
        return rewards

    @property
    def model(self) -> str | None:
        """The model that sampled the row's tokens."""
        return self.rollout.model_of(self.segment.agent)

    @property
    def components(self) -> dict[str, float]:
        """The components of the reward, by name."""
        assert self.rollout.score is not None
        return {name: part.value for name, part in self.rollout.score.components.items()}

    @property
    def prompt_ids(self) -> list[int]:
        """The token ids before the first sampled token."""
        return list(self.segment.token_ids)[: self.segment.prompt_length]

    @property
    def response_ids(self) -> list[int]:
        """All token ids from the first sampled one on, sampled or written by the environment."""
        return list(self.segment.token_ids)[self.segment.prompt_length :]

    @property
    def response_mask(self) -> list[int]:
        """1 on tokens to train on, which the policy sampled [response]."""
        return list(self.segment.loss_mask)[self.segment.prompt_length :]

    @property
    def response_logprobs(self) -> list[float]:
        """The sampler's log-probabilities; 0 on tokens that the environment wrote [response]."""
        return list(self.segment.logprobs)[self.segment.prompt_length :]

    @property
    def response_versions(self) -> list[int]:
        """The policy version of each sampled token, -1 elsewhere [response]."""
        return list(self.segment.versions)[self.segment.prompt_length :]

    @property
    def turns(self) -> list[int]:
        """The indices of the turns that were sampled in the row, in order."""
        return sorted(set(self.segment.turn_ids) - {-1})

    @property
    def is_last(self) -> bool:
        """Whether the row is the rollout's last."""
        return self.index == self.count - 1

    @property
    def is_truncated(self) -> bool:
        """Whether a limit or an interruption ended the rollout, not its agent."""
        return self.rollout.stop in _CUT

    @property
    def weight(self) -> float:
        """1 divided by the number of the rollout's rows, so that a forked rollout counts no more than another."""
        return 1.0 / self.count


_CUT = (Stop.TURN_LIMIT, Stop.TOKEN_LIMIT, Stop.TIME_LIMIT, Stop.COST_LIMIT, Stop.CONTEXT_LIMIT, Stop.INTERRUPTED)


def training_rows(
    rollout: Rollout,
    credit: Credit = WHOLE,
    *,
    need: Need = "logprobs",
    suspect: bool = False,
    seat: str | None = None,
) -> list[TrainingRow]:
    """The training rows of a rollout: one for each seat if every prompt extended its row, more if it forked.

    Seats that the run's own model did not play, such as an opponent that is not trained, make none. With `seat`, only
    that seat makes rows.

    With `suspect`, a rollout whose reward its verifier calls suspect is taken, too.

    Raises:
        NotTrainable: the rollout must not be trained on; it has the reason.
    """
    if (refused := why_refused(rollout, need, suspect=suspect, seat=seat)) is not None:
        raise NotTrainable(refused)
    seats = rollout.policy_seats if seat is None else (seat,)
    rows = [segment for segment in segments(rollout) if segment.agent in seats]
    returns = turn_returns(rollout, credit)
    return [TrainingRow(rollout, segment, index, len(rows), returns) for index, segment in enumerate(rows)]
