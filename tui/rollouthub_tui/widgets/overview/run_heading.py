"""The heading of a run: name, status, environments, agent and model; and its progress."""

from dataclasses import replace
from pathlib import PurePath
from typing import Any, cast

from rich.text import Text

from rollouthub.live.follow import RunProgress
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import moment
from rollouthub.views.terminal.progress_line import progress_line
from rollouthub.views.terminal.run_status import standing, status_text
from rollouthub.views.terminal.text_fit import LABEL, cut
from rollouthub_tui.widgets.overview.cached_panel import Drawn


class Heading(Drawn):
    """Two lines: the run's name and status; environments, agent and model."""

    DEFAULT_CSS = "Heading { height: 2; padding: 0 1; }"
    crumb = ""
    """What of the run is shown, such as a task; empty for all of it."""

    def state(self, run: WatchedRun) -> object:
        """The facts in the heading, which seldom change."""
        info = run.feed.info
        return (
            self.crumb,
            info.status,
            info.stopped,
            len(info.resumptions),
            run.view and (run.view.status, run.view.concurrency),
        )

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """Draw the heading's lines."""
        info, view = run.feed.info, run.view
        stands = standing(info.status, view and view.status)
        status = status_text(info.status, view and view.status)
        name = cut(run.directory.resolve().name or "(no name)", max(8, width - status.cell_len - 2))
        crumb = f" › {cut(self.crumb, 60)}" if self.crumb else ""
        first = Text.assemble((name, "bold"), crumb, "  ", status)
        if info.stopped:
            first.append(f"  {cut(info.stopped, max(0, width - first.cell_len - 2))}", "yellow")
        elif stands.word not in ("running", "finished"):
            first.append(f"  {cut(stands.meaning, max(0, width - first.cell_len - 2))}", LABEL)
        elif view is not None and view.concurrency is not None:
            first.append(f"  {view.concurrency:,} at a time", LABEL)
        second = Text(cut(" · ".join(_names(run)), width), LABEL)
        first.truncate(width)
        return Text("\n").join([first, second])

    def wait(self, run: WatchedRun) -> None:
        """Show that the run is being read."""
        self.replace(Text.assemble((cut(run.directory.name, 60), "bold"), ("  reading …", LABEL)))


class ProgressPanel(Drawn):
    """The run's progress in one line."""

    DEFAULT_CSS = "ProgressPanel { height: 1; padding: 0 1; }"

    def state(self, run: WatchedRun) -> object:
        """All values in the line; times count in whole seconds."""
        progress = _progress(run)
        eta = progress.eta_seconds
        return (
            progress.status, progress.done, progress.planned, progress.in_flight, int(progress.seconds),
            eta is not None and int(eta), run.view and run.view.status,
        )  # fmt: skip

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """The progress line."""
        return progress_line(_progress(run), width, run.view and run.view.status, has_status=False)


def _progress(run: WatchedRun) -> RunProgress:
    """The progress figures; the number in flight is the hub's, as the store may show fewer."""
    progress = run.feed.progress(run.clock())
    known = run.view.in_flight if run.view is not None else 0
    return replace(progress, in_flight=max(progress.in_flight, known))


def _names(run: WatchedRun) -> list[str]:
    """Environments, agent, model, start time, and machine."""
    info = run.feed.info
    asked = info.resolved.get("request")
    request = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
    named = request.get("environments")
    environments = cast("list[object]", named) if isinstance(named, list) else []
    said = [", ".join(_short(str(environment)) for environment in environments)]
    seats = [f"{seat}: {player}" for seat, player in info.seats.items()]
    said += [str(request.get("agent") or ""), str(request.get("model") or ("" if seats else "no model")), *seats]
    if (source := info.read_from) is not None:
        said.append(f"read from {source.format}")
    said.append(f"began {moment(source.created_at if source and source.created_at else info.created_at)}")
    if info.host and source is None:
        said.append(f"on {info.host}")
    return [words for words in said if words]


def _short(environment: str) -> str:
    """The name of an environment; of one that is a file or folder, the last part of its path."""
    return PurePath(environment).name if environment.startswith(("/", "./", "../", "~")) else environment
