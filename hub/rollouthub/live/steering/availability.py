"""Whether an action is available, and the reason when it is not, without asking the hub."""

import socket
from dataclasses import dataclass
from typing import Literal

from rollouthub.live.control.live_views import RunView
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.store.run_facts import ShownStatus, State
from rollouthub.text import plain_name

Action = Literal[
    "cancel",
    "interrupt",
    "message",
    "retry",
    "pause",
    "more",
    "fewer",
    "concurrency",
    "rescore",
    "copy",
    "artifacts",
    "shell",
]
OF_A_ROLLOUT: frozenset[Action] = frozenset({"cancel", "interrupt", "message", "retry", "shell"})
OF_A_HUB: frozenset[Action] = frozenset(
    {"cancel", "interrupt", "message", "retry", "pause", "more", "fewer", "concurrency", "shell"}
)
OF_A_TERMINAL: frozenset[Action] = frozenset({"artifacts", "shell"})


@dataclass(frozen=True, slots=True)
class Situation:
    """All facts that decide which actions are available; equal situations allow the same actions."""

    status: ShownStatus | None
    """Status of the run; None if it has not been read yet."""
    host: str | None
    """Name of the machine that plays the run; None if it is this one, or unknown."""
    is_steered: bool
    state: str | None
    """Status of the run as its hub reports it; None if no hub does."""
    concurrency: int | None
    rollout_id: str | None
    """Id of the selected rollout; None if none is selected."""
    in_flight: State | None
    """Stage of the selected rollout; None if it is not in flight."""
    ending: OutcomeKind | None
    """Kind of the selected rollout's outcome; None if it has no record."""
    counts: bool
    """Whether no later attempt has replaced the selected one."""
    is_web: bool


def situation(run: WatchedRun, target: Target | None, *, is_web: bool) -> Situation:
    """The situation of a run and of the selected rollout."""
    if not run.is_open:
        return Situation(None, None, False, None, None, None, None, None, True, is_web)
    feed, view = run.feed, run.view
    ending: OutcomeKind | None = None
    counts = True
    if target is not None and target.place is not None and target.place < len(feed.columns):
        ending = Outcome(feed.columns.value("outcome", target.place)).kind
        counts = bool(feed.columns.effective[target.place])
    host = feed.info.host
    return Situation(
        status=feed.info.status,
        host=None if host is None or host == socket.gethostname() else host,
        is_steered=run.is_steered,
        state=None if view is None else view.status,
        concurrency=None if view is None else view.concurrency,
        rollout_id=None if target is None else target.rollout_id,
        in_flight=_state(run, target),
        ending=ending,
        counts=counts,
        is_web=is_web,
    )


def _state(run: WatchedRun, target: Target | None) -> State | None:
    if target is None or target.place is not None:
        return None
    return next((live.state for live in run.feed.live if live.rollout_id == target.rollout_id), None)


def why_not(action: Action, now: Situation) -> str | None:
    """Why an action is not available; None if it may be, though the hub can still refuse it."""
    if action == "copy":
        return None
    if now.status is None:
        return "the run is not read yet"
    if action in OF_A_TERMINAL and now.is_web:
        return "not in a browser: it would need this machine's terminal; use `hub watch` there"
    if action == "rescore":
        return "the run is still on; score it anew when it has ended" if now.status == "running" else None
    if action in OF_A_HUB and (reason := _no_hub(action, now)):
        return reason
    if action in OF_A_ROLLOUT:
        return "there is no rollout here" if now.rollout_id is None else _no_rollout(action, now)
    if action in ("more", "fewer", "concurrency") and now.concurrency is None:
        return "the run says no concurrency of its own: others decide how many play at a time"
    if action == "fewer" and now.concurrency == 1:
        return "one at a time is the fewest; p pauses the run"
    if action == "pause" and now.state in ("finishing", "stopping"):
        return f"the run is {now.state}: it starts nothing new any more"
    return None


def _no_hub(action: Action, now: Situation) -> str | None:
    if now.status != "running":
        if action == "retry":
            return f"the run is {_word(now.status)}; `hub run --resume -o DIRECTORY` plays again what is unscored"
        return f"the run is {_word(now.status)}: nothing of it plays"
    if now.is_steered:
        return None
    if now.host is not None:
        return f"it plays on {plain_name(now.host)}; its hub can be reached only there"
    return "no hub has answered for it yet, and it is asked again every 2 s; it may play elsewhere, or have no socket"


def _word(status: ShownStatus | None) -> str:
    return {"dead": "dead (its process is gone)", "finished": "over"}.get(str(status), str(status))


def _no_rollout(action: Action, now: Situation) -> str | None:
    name = plain_name(now.rollout_id or "")
    if action == "retry":
        if now.ending is None:
            return f"{name} is still in flight; only what broke or was cancelled is played again"
        if now.ending in ("scored", "agent_failure"):
            return (
                f"{name} has a result, {now.ending.replace('_', ' ')}; only what broke or was cancelled is played again"
            )
        return None if now.counts else f"a later attempt of {name} took the place of this one"
    if now.ending is not None:
        return f"{name} is over: {now.ending.replace('_', ' ')}"
    if now.in_flight is None:
        return f"{name} is not in flight any more"
    if action != "cancel" and now.in_flight in ("verify", "close"):
        return f"the agent's time is over: {name} is being {'scored' if now.in_flight == 'verify' else 'closed'}"
    if action == "message" and now.in_flight in ("queued", "setup"):
        return f"{name} is not set up yet: it has no agent to message"
    return None


def next_concurrency(view: RunView | None, *, more: bool) -> int:
    """The concurrency one step up or down: a step is an eighth of the present one, at least 1."""
    now = 1 if view is None or view.concurrency is None else view.concurrency
    step = max(1, now // 8)
    return now + step if more else max(1, now - step)
