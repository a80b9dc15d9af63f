"""Filters for ROLL: groups of which a member has no verdict, and those that teach nothing."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rollouthub.trainers.roll.play import UNSCORED

_EQUAL = 1e-6


class HubGroupFilter:
    """For `group_filter_cls`: drops groups of which a member was not scored; their mean is no baseline."""

    drops_equal = False

    def __init__(self, config: Any, env_manager_config: Any, mode: str) -> None:
        self.mode = mode
        self.dropped: Counter[str] = Counter()
        """Why, and how often."""

    def filter(self, group_id: int, episode_id: int, group: Sequence[Any]) -> bool:
        """Whether to drop a group."""
        reason = why_dropped(group, drops_equal=self.drops_equal and self.mode == "train")
        if reason is not None:
            self.dropped[reason] += 1
        return reason is not None


class HubSpreadFilter(HubGroupFilter):
    """The same, and in training it drops groups of equal scores (dynamic sampling)."""

    drops_equal = True


def why_dropped(group: Sequence[Any], *, drops_equal: bool) -> str | None:
    """Why a group of ROLL's batches teaches nothing; None where it does."""
    members = [member for member in group if member is not None]
    if any(bool(member.meta_info.get("drop_flag")) for member in members):
        return "dropped"
    if any(said.startswith(UNSCORED) for member in members for said in _reasons(member)):
        return "unscored"
    scores = [float(member.non_tensor_batch["episode_scores"][0]) for member in members]
    if drops_equal and len(scores) > 1 and max(scores) - min(scores) <= _EQUAL:
        return "equal_scores"
    return None


def _reasons(member: Any) -> list[str]:
    """What was recorded of how a member's episode ended: by the proxy's manager, or by that of Gym environments."""
    found: list[str] = []
    for text in member.non_tensor_batch.get("trajectory_data", ()):
        told: dict[str, Any] = json.loads(text) if text else {}
        found += [str(told.get("finish_reason")), str(told.get("failure_info", {}).get("failure_mode"))]
    return found
