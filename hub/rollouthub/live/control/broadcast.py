"""Sends a run's events to all clients that follow it; a slow client misses some, and the run never waits."""

from collections import deque

import anyio

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.run_control import LiveRun, RunEnding
from rollouthub.live.control.attempt_descriptions import asked, finish_reason, turn_tokens
from rollouthub.live.control.live_protocol import (
    DroppedEvent,
    Event,
    FinishedEvent,
    RunEndedEvent,
    StartedEvent,
    StateEvent,
    ToolEvent,
    TurnEvent,
)
from rollouthub.rollout import Rollout
from rollouthub.text import plain_name

MOST_WAITING = 1000
"""Most unread events held for one client."""
_OPEN_TURNS = 8
"""Number of latest turns searched for new tool calls while an attempt plays; at its end, all are."""


class ClientEvents:
    """The events one client has not read yet."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._change = anyio.Event()
        self.taken = 0
        """Number of events sent."""
        self.is_over = False
        """Whether no more events will come."""

    def put(self, event: bytes, *, is_last: bool = False) -> None:
        """Queue an event, or count it as dropped if too many wait."""
        if len(self._waiting) >= MOST_WAITING and not is_last:
            self._dropped += 1
            return
        if self._dropped:
            self._waiting.append(_encoded(DroppedEvent(count=self._dropped)))
            self._dropped = 0
        self._waiting.append(event)
        self.is_over = self.is_over or is_last
        self._change.set()

    async def take(self, most: int) -> list[bytes]:
        """Wait for events; returns a few of them, or none when all are sent."""
        while not self._waiting:
            if self.is_over:
                return []
            self._change = anyio.Event()
            await self._change.wait()
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self.taken += len(taken)
        if self._dropped and len(self._waiting) < MOST_WAITING // 2:
            self._waiting.append(_encoded(DroppedEvent(count=self._dropped)))  # also where nothing more happens
            self._dropped = 0
        return taken


class _ReportedCalls:
    """What clients were told about an attempt."""

    def __init__(self, attempt: InFlight) -> None:
        turns = attempt.recorder.turns
        self.calls = [len(turn.tool_calls) for turn in turns]
        """Of every turn told."""


class Broadcast:
    """Watches a run while a client follows it, and makes each event once for all clients."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._followers: list[ClientEvents] = []
        self._seen: dict[str, _ReportedCalls] = {}

    @property
    def followers(self) -> int:
        """The number of clients that follow the run."""
        return len(self._followers)

    @property
    def taken(self) -> int:
        """Number of events sent to the clients that follow now."""
        return sum(follower.taken for follower in self._followers)

    def join(self) -> ClientEvents:
        """Add a client."""
        follower = ClientEvents()
        if not self._followers:
            self._seen = {name: _ReportedCalls(attempt) for name, attempt in self._live.attempts.items()}
            self._live.watchers.append(self)
        self._followers.append(follower)
        return follower

    def leave(self, follower: ClientEvents) -> None:
        """Remove a client."""
        if follower in self._followers:
            self._followers.remove(follower)
        if not self._followers and self in self._live.watchers:
            self._live.watchers.remove(self)
            self._seen = {}

    def began(self, attempt: InFlight) -> None:
        """Send the event that an attempt started."""
        sample = attempt.sample
        self._seen[sample.rollout_id] = _ReportedCalls(attempt)
        self._publish(
            StartedEvent(
                rollout_id=sample.rollout_id,
                environment=plain_name(sample.context.environment.name),
                task_id=plain_name(sample.task_ref.id),
                sample=sample.index,
                attempt=attempt.number,
            )
        )

    def moved(self, attempt: InFlight) -> None:
        """Send the event of a new state, after the events of what the attempt did before."""
        self._publish_turns(attempt, since=_OPEN_TURNS)
        recorder = attempt.recorder
        self._publish(
            StateEvent(
                rollout_id=attempt.sample.rollout_id,
                state=attempt.state,
                turn=recorder.turn_count,
                output_tokens=recorder.output_tokens,
            )
        )

    def ended(self, attempt: InFlight, rollout: Rollout) -> None:
        """Send the event that an attempt is over."""
        self._publish_turns(attempt, since=len(attempt.recorder.turns))
        self._seen.pop(rollout.rollout_id, None)
        fault = rollout.faults[0] if rollout.faults else None
        self._publish(
            FinishedEvent(
                rollout_id=rollout.rollout_id,
                attempt=rollout.attempt,
                outcome=rollout.outcome.value,
                stop=rollout.stop.value,
                reward=rollout.reward,
                turns=len(rollout.turns),
                output_tokens=attempt.recorder.output_tokens,
                seconds=round(rollout.timings.total, 3),
                fault=None if fault is None else plain_name(f"{fault.boundary}:{fault.type}"),
            )
        )

    def run_ended(self, run_id: str, ending: RunEnding) -> None:
        """Send the last event."""
        self._publish(RunEndedEvent(run_id=run_id, ending=ending), is_last=True)

    def _publish_turns(self, attempt: InFlight, since: int) -> None:
        """Send events of new turns, and of tool calls that have ended in the latest turns."""
        rollout_id, turns = attempt.sample.rollout_id, attempt.recorder.turns
        seen = self._seen[rollout_id].calls
        for turn in turns[max(0, min(len(seen), len(turns) - since)) :]:
            if turn.index >= len(seen):
                seen.append(0)
                self._publish(
                    TurnEvent(
                        rollout_id=rollout_id,
                        turn=turn.index,
                        agent=plain_name(turn.agent),
                        output_tokens=turn_tokens(turn),
                        seconds=round(turn.seconds, 3),
                        finish_reason=finish_reason(turn),
                        asked=asked(turn),
                    )
                )
            for call in turn.tool_calls[seen[turn.index] :]:
                self._publish(
                    ToolEvent(
                        rollout_id=rollout_id,
                        turn=turn.index,
                        name=plain_name(call.name),
                        outcome="error" if call.is_error else "ok",
                        seconds=round(call.seconds, 3),
                    )
                )
            seen[turn.index] = len(turn.tool_calls)

    def _publish(self, event: Event, *, is_last: bool = False) -> None:
        line = _encoded(event)
        for follower in self._followers:
            follower.put(line, is_last=is_last)


def _encoded(event: Event) -> bytes:
    return event.model_dump_json().encode()
