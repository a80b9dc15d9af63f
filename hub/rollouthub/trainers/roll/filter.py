"""Filters for ROLL: drop groups with an unscored member, and groups without a learning signal."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rollouthub.trainers.roll.play import UNSCORED

_EQUAL = 1e-6


class HubGroupFilter:
    """For `group_filter_cls`: drops groups with an unscored member, because their mean is no valid baseline."""

    drops_equal = False

    def __init__(self, config: Any, env_manager_config: Any, mode: str) -> None:
        self.mode = mode
        self.dropped: Counter[str] = Counter()
        """How many groups were dropped, by reason."""

    def filter(self, group_id: int, episode_id: int, group: Sequence[Any]) -> bool:
        """Whether to drop a group; ROLL calls it for each finished group."""
        reason = why_dropped(group, drops_equal=self.drops_equal and self.mode == "train")
        if reason is not None:
            self.dropped[reason] += 1
        return reason is not None


class HubSpreadFilter(HubGroupFilter):
    """As `HubGroupFilter`; in training it also drops groups with equal scores (dynamic sampling)."""

    drops_equal = True


def why_dropped(group: Sequence[Any], *, drops_equal: bool) -> str | None:
    """Why a group of ROLL's batches is dropped; None if it is kept."""
    members = [member for member in group if member is not None]
    if any(bool(member.meta_info.get("drop_flag")) for member in members):
        return "dropped"
    if any(said.startswith(UNSCORED) for member in members for said in _reasons(member)):
        return "unscored"
    if drops_equal and len(members) > 1 and all(max(own) - min(own) <= _EQUAL for own in _scores(members)):
        return "equal_scores"
    return None


def _scores(members: Sequence[Any]) -> Iterable[Sequence[float]]:
    """The scores that ROLL compares: those of each trajectory group, which is one for each seat."""
    found: dict[str, list[float]] = {}
    for member in members:
        columns = member.non_tensor_batch
        for group, score in zip(columns["traj_group_id"], columns["episode_scores"], strict=True):
            found.setdefault(str(group), []).append(float(score))
    return found.values()


def _reasons(member: Any) -> list[str]:
    """The recorded reasons why a member's episode ended, by the proxy's manager or the manager of Gym environments."""
    found: list[str] = []
    for text in member.non_tensor_batch.get("trajectory_data", ()):
        result: dict[str, Any] = json.loads(text) if text else {}
        found += [str(result.get("finish_reason")), str(result.get("failure_info", {}).get("failure_mode"))]
    return found
