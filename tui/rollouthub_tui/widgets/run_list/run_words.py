"""The texts for one run in the list of runs."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from rollouthub.live.control.live_views import RunView
from rollouthub.live.follow import SeenRun
from rollouthub.live.follow.run_tallies import Tally
from rollouthub.statistics.amounts import NONE, clock, moment, number, share, short
from rollouthub.store import BrokenRun, RunInfo
from rollouthub_tui.widgets.run_list.pace import seconds_left
from rollouthub_tui.widgets.safe_words import named, quoted

STYLES = {
    "running": "cyan",
    "paused": "yellow",
    "finishing": "yellow",
    "stopping": "yellow",
    "finished": "green",
    "interrupted": "yellow",
    "failed": "red",
    "dead": "red",
    "unreadable": "red",
}
"""The colour for each status word, which is always shown with it."""
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Line:
    """The texts for one run."""

    name: str
    status: str
    environments: str
    agent: str
    model: str
    problem: str | None
    """Why the run cannot be read; None if it can."""
    created_at: float | None
    planned: int | None
    is_live: bool


def line_of(run: SeenRun) -> Line:
    """The texts of a run that stay the same while it plays."""
    name = named(run.name) or "(no name)"
    if isinstance(run.info, BrokenRun):
        problem = quoted(run.info.problem, 2000)
        return Line(name, "unreadable", "", "", "", problem, None, None, run.is_live)
    view, info = run.view, run.info
    request = info.resolved.get("request")
    asked = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
    environments = list(view.environments) if view else _names(asked.get("environments"))
    return Line(
        name,
        status_of(view) if view else info.status,
        named(", ".join(_short(environment) for environment in environments)) or NONE,
        named((view.agent if view else _text(asked.get("agent"))) or NONE),
        named(", ".join(filter(None, (view.model if view else _text(asked.get("model")), *_seats(info))))) or NONE,
        None,
        info.created_at,
        info.planned if view is None or view.planned is None else view.planned,
        run.is_live,
    )


def status_of(view: RunView) -> str:
    """The status of a live run as its hub reports it."""
    return view.status


def _seats(info: RunInfo) -> list[str]:
    return [f"{seat}={player}" for seat, player in info.seats.items()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _names(value: object) -> list[str]:
    return [str(name) for name in cast("list[object]", value)] if isinstance(value, list) else []


def _short(environment: str) -> str:
    """The name of an environment; of one that is a file or folder, the last part of its path."""
    return PurePath(environment).name if environment.startswith(("/", "./", "../", "~")) else environment


def done_of(line: Line, tally: Tally | None) -> str:
    """How many rollouts are done of how many, in words."""
    done = NONE if tally is None or tally.done is None else _count(tally.done)
    return done if line.planned is None else f"{done}/{_count(line.planned)}"


def _count(value: int) -> str:
    return f"{value}" if value < 100_000 else short(value)


def bar(done: int | None, planned: int | None, width: int) -> str:
    """The progress of a run as a bar."""
    if done is None or not planned:
        return ""
    eighths = round(8 * width * min(1.0, done / planned))
    full, part = divmod(eighths, 8)
    return (_FULL * full + (_PARTS[part] if part else "")).ljust(width, "·")


def pace_of(line: Line, tally: Tally | None, rate: float | None) -> str:
    """The run's speed and the time left, in words."""
    if not line.is_live or rate is None:
        return ""
    speed = f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min"
    left = seconds_left(rate, tally.done if tally else None, line.planned)
    return speed if left is None else f"{speed} {clock(left)} left"


def unscored_of(tally: Tally | None) -> int:
    """How many rollouts are done and have no score."""
    return 0 if tally is None or tally.done is None else max(0, tally.done - tally.scored)


def reward_of(tally: Tally | None) -> str:
    """The run's mean reward, as text."""
    return NONE if tally is None else number(tally.mean_reward)


def passes_of(tally: Tally | None) -> str:
    """The run's pass rate, as text."""
    return NONE if tally is None else share(tally.pass_rate)


def age(created_at: float | None, now: float) -> str:
    """How long ago a time is, in a few characters."""
    if created_at is None:
        return NONE
    seconds = max(0.0, now - created_at)
    for unit, scale in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= scale:
            return f"{int(seconds // scale)} {unit}"
    return "now"


def when(created_at: float | None, now: float) -> str:
    """A time, and how long ago it is."""
    if created_at is None:
        return NONE
    ago = age(created_at, now)
    return f"{moment(created_at)}, {ago}" + (" ago" if ago != "now" else "")
