"""Checks that an episode's times fit into each other; whether the clock was right, nothing can show."""

from collections.abc import Iterator

from rollouthub.rollout import Rollout
from rollouthub.store import AttemptSummary, RunInfo
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import attempt_name

_SLACK_SECONDS = 0.1
"""By which parts may exceed the whole: they are measured one after the other."""
_SKEW_SECONDS = 600.0
"""By which the clocks of a run's machines may differ."""


class TimeCheck:
    """Looks at the times of every attempt."""

    def __init__(self, info: RunInfo) -> None:
        self._problems = Problems()
        self._seen = 0
        # A run that was scored again has the moments of the run that it was made from.
        self._begin = None if "rescored" in info.resolved else info.created_at - _SKEW_SECONDS
        self._end = None if info.finished_at is None else info.finished_at + _SKEW_SECONDS

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        self._seen += 1
        problem = self._problem(rollout)
        if problem is not None:
            self._problems.add(f"{attempt_name(rollout)}: {problem}")

    def _problem(self, rollout: Rollout) -> str | None:
        times = rollout.timings
        stages = (times.setup, times.agent, times.verify, times.close)
        if min(*stages, times.queue, times.model, times.tool, times.total) < 0:
            return "a stage took less than no time"
        if sum(stages) > times.total + _SLACK_SECONDS:
            return f"its stages took {sum(stages):.3f} s, and the whole {times.total:.3f} s"
        if self._begin is not None and rollout.started_at < self._begin:
            return "it began before its run was made"
        if self._begin is not None and self._end is not None and rollout.started_at > self._end:
            return "it began after its run had ended"
        return self._problem_of_turns(rollout)

    def _problem_of_turns(self, rollout: Rollout) -> str | None:
        most = rollout.timings.total + _SLACK_SECONDS
        started = {turn.index: turn.started for turn in rollout.turns}
        for turn in rollout.turns:
            spans = ((turn.started, turn.seconds), *((call.started, call.seconds) for call in turn.tool_calls))
            if any(begun < 0 or seconds < 0 or begun + seconds > most for begun, seconds in spans):
                return f"turn {turn.index} does not lie within the episode's {rollout.timings.total:.3f} s"
            before = None if turn.parent_turn is None else started.get(turn.parent_turn)
            if before is not None and turn.started < before:
                return f"turn {turn.index} began before turn {turn.parent_turn}, whose answer it goes on from"
        return None

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._problems:
            said = f"the times of {counted(self._problems.count, 'attempt')} contradict each other"
            yield self._problems.refutes("times", said, self._seen)
        elif self._seen:
            said = f"turns, tool calls and stages of {counted(self._seen, 'attempt')} lie within each other in time"
            yield Claim("times", "consistent", said, self._seen)
