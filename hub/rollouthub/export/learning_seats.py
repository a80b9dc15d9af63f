"""The seats of a rollout that are trained: the ids of their trajectories, their rewards and their advantages."""

from collections.abc import Callable, Mapping, Sequence

from rollouthub.authoring.rewards import group_advantages
from rollouthub.authoring.rewards.advantages import GroupMethod
from rollouthub.export.not_trainable import NotTrainable, Refusal, RefusalReason
from rollouthub.rollout import ONLY_SEAT, Rollout


def seat_id(identity: str, seat: str) -> str:
    """The id of one seat's trajectory or group, from the id of its rollout or its rollout's group.

    Each seat is a trajectory of its own and is compared with the same seat of the other members, so that trainers that
    sum or compare rewards by id do not mix seats. The seat of an environment without named seats adds nothing.
    """
    return identity if seat == ONLY_SEAT else f"{identity}/{seat}"


def seat_advantages(
    members: Sequence[Rollout | None],
    method: GroupMethod,
    reward_of: Callable[[Rollout, str], float | None] = Rollout.reward_of,
) -> Mapping[str, Sequence[float | None]]:
    """Seat → the advantage of each member [member], relative to the same seat of the other members.

    A member that is None, or not scored, has none and does not count in any baseline. `reward_of` may shape the reward
    of a rollout's seat before it is compared.
    """
    seats = dict.fromkeys(seat for member in members if member is not None for seat in member.policy_seats)
    return {
        seat: group_advantages([None if member is None else reward_of(member, seat) for member in members], method)
        for seat in seats
    }


def one_reward(rollout: Rollout) -> float:
    """The reward of the trained seats, for a trainer that takes one number for a rollout.

    Raises:
        NotTrainable: the rollout is not scored, or its trained seats earned different rewards.
    """
    if rollout.score is None:
        reason = f"it was not scored: {rollout.outcome.value}"
        raise NotTrainable(RefusalReason(Refusal.UNSCORED, reason, rollout.rollout_id))
    earned = {seat: rollout.reward_of(seat) for seat in rollout.policy_seats}
    rewards = {reward for reward in earned.values() if reward is not None}
    if len(rewards) > 1:
        shares = ", ".join(f"{seat} {reward:g}" for seat, reward in earned.items() if reward is not None)
        reason = f"its seats earned different rewards ({shares}), and this trainer takes one number for a rollout"
        raise NotTrainable(RefusalReason(Refusal.SEVERAL_SEATS, reason, rollout.rollout_id))
    return rewards.pop() if rewards else rollout.score.reward


def check_one_seat(rollout: Rollout, system: str) -> None:
    """Refuse a rollout in which several seats are trained, for a trainer that takes the rows of one.

    Raises:
        NotTrainable: several seats are trained.
    """
    seats = rollout.policy_seats
    if len(seats) > 1:
        reason = (
            f"its seats {', '.join(seats)} are trained, and {system} takes one of them; name it by `seat`, or give the "
            "others models of their own"
        )
        raise NotTrainable(RefusalReason(Refusal.SEVERAL_SEATS, reason, rollout.rollout_id))
