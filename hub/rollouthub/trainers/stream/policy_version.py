"""The policy's version: the current one and past ones with their times, and the stamping of records with versions."""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from rollouthub.rollout import Rollout, Turn, policy_turns

TOKEN_VERSIONS = "token_versions"
"""Name of a record's gap: weights changed during an answer, and the version of each token is unknown."""
_REMEMBERED = 4096


class PolicyVersions:
    """The history of the policy's version."""

    def __init__(self, version: int, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch, as in records."""
        self._clock = clock
        self._versions = [version]
        self._since = [float("-inf")]

    @property
    def version(self) -> int:
        """The current version."""
        return self._versions[-1]

    def advance(self, version: int) -> None:
        """Make `version` the current one from now on."""
        self._versions.append(version)
        self._since.append(self._clock())
        if len(self._versions) > _REMEMBERED:
            del self._versions[0], self._since[0]

    def at(self, seconds: float) -> int:
        """The version that was current at a time, in seconds since the epoch."""
        return self._versions[max(0, bisect_right(self._since, seconds) - 1)]


def stamped(rollout: Rollout, policy: PolicyVersions, until: int | None = None) -> Rollout:
    """The record with a policy version on every turn of the run's model; versions that the server reported are not
    changed.

    A turn without a reported version gets the one that was current when its call began, since none of its tokens is
    older. `until` is the version at the end of a call during which weights changed.
    """
    unknown = [turn for turn in rollout.policy_turns if _is_unstamped(turn)]
    if not unknown and until is None:
        return rollout
    turns, newest = list(rollout.turns), until
    for turn in unknown:
        began = rollout.started_at + turn.started
        version = policy.at(began)
        turns[turn.index] = turn.model_copy(update={"policy_version": version})
        ended = policy.at(began + turn.seconds)
        if ended != version:
            newest = ended if newest is None else max(newest, ended)
    versions = list(_versions(policy_turns(turns, rollout.seats, rollout.model)))
    gaps = rollout.gaps
    if newest is not None:
        versions.append(newest)
        gaps = gaps if TOKEN_VERSIONS in gaps else (*gaps, TOKEN_VERSIONS)
    return rollout.model_copy(
        update={
            "turns": tuple(turns),
            "policy_version_min": min(versions, default=None),
            "policy_version_max": max(versions, default=None),
            "gaps": gaps,
        }
    )


def _is_unstamped(turn: Turn) -> bool:
    """Whether the run's own model made the turn, and no policy version is recorded for it."""
    is_asked = turn.finish_reason is not None and turn.model is None
    return is_asked and turn.policy_version is None and turn.policy_versions is None


def _versions(turns: Sequence[Turn]) -> Iterator[int]:
    for turn in turns:
        if turn.version_span is not None:
            yield from turn.version_span
