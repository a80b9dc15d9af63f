"""`rollouthub.evaluate`: runs tasks as `hub run` does, from a script, a notebook or a running event loop."""

import asyncio
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, overload

from anyio.from_thread import start_blocking_portal
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rollouthub.engine.directories import default_directory, model_folder
from rollouthub.engine.plan import make_plan
from rollouthub.engine.policy_model import with_default_model
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest, as_toml, build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.errors import ConfigError, raise_first_error
from rollouthub.event_loop import run_async
from rollouthub.live.control.live_server import open_live_server
from rollouthub.live.control.observers import observed
from rollouthub.live.follow.played_so_far import PlayedSoFar
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.plugins.environments import held
from rollouthub.rollout import Rollout
from rollouthub.settings import takes_settings
from rollouthub.statistics.amounts import number
from rollouthub.views.notebook.notebook_run import Run, open_run

Target = str | PathLike[str] | type[Environment[Any, Any, Any]]
"""An environment: its name, the path of its file or folder, or its class, which may be defined in a notebook cell."""
_ELSEWHERE = "play it with served=True, in processes of its own"

_OWN = ("directory", "resume", "progress", "credentials")


@overload
def evaluate(
    environments: Target | Sequence[Target],
    model: str | None = None,
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Run: ...
@overload
def evaluate(
    environments: Target | Sequence[Target],
    model: Sequence[str],
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> dict[str, Run]: ...
@takes_settings(RunRequest)
def evaluate(
    environments: Target | Sequence[Target],
    model: str | Sequence[str] | None = None,
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Run | dict[str, Run]:
    """Play environments' tasks, verify them, and return the run, with its figures, rollouts and failures.

        run = rollouthub.evaluate("arithmetic", "hosted_vllm/NAME", base_url="http://127.0.0.1:8000/v1", repeats=8)
        run.mean_reward, run.failed, run.rollouts().to_pandas()

    `settings` are those of `hub run`, by the names that a `--config` file has (`agent`, `limit`, `repeats`, `set`,
    `limits={"max_turns": 5}` …); docs/settings.md lists them. Without a model the oracle plays the reference solutions.
    The run is kept in `directory` (`runs/ENV-AGENT-TIME` unless it is given); `resume` goes on with one. `progress`
    shows a bar; None shows one in a terminal and in a notebook. `credentials` are the process's own unless they are
    given. Interrupted, it keeps what is finished.

    Several models play one after the other, each in a run of its own (`directory/01-MODEL` …). The result maps each
    model's name to its run; `hub compare` compares them.

    It may also be called in a notebook, or where an event loop runs; that loop waits meanwhile, see `aevaluate`.

    Raises:
        UsageError: a name or a setting does not hold, a model cannot be reached, the directory cannot be used.
        StoreError: the store failed in mid-run; what it had committed stays.
    """

    async def play() -> Run | dict[str, Run]:
        given: Any = {"directory": directory, "resume": resume, "progress": progress, "credentials": credentials}
        return await aevaluate(environments, model, **given, **settings)

    if not _is_in_a_loop():
        return run_async(play)
    with start_blocking_portal("asyncio") as portal:
        return portal.call(play)


@overload
async def aevaluate(
    environments: Target | Sequence[Target],
    model: str | None = None,
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Run: ...
@overload
async def aevaluate(
    environments: Target | Sequence[Target],
    model: Sequence[str],
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> dict[str, Run]: ...
@takes_settings(RunRequest)
async def aevaluate(
    environments: Target | Sequence[Target],
    model: str | Sequence[str] | None = None,
    *,
    directory: str | PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Run | dict[str, Run]:
    """`evaluate` for async code: the event loop goes on meanwhile. Cancelled, it keeps what is finished.

    Raises:
        UsageError, StoreError: as `evaluate`.
    """
    if model is not None and not isinstance(model, str):
        models = list(model)
        if not models or len(set(models)) < len(models):
            raise ConfigError(f"evaluate(): name each model once, and at least one; not {models}")
        runs: dict[str, Run] = {}
        given: Any = {"resume": resume, "progress": progress, "credentials": credentials}
        for number, name in enumerate(models, 1):
            own = None if directory is None else Path(directory) / model_folder(number, name)
            runs[name] = await aevaluate(environments, name, directory=own, **given, **settings)
        return runs
    targets = [environments] if isinstance(environments, str | PathLike | type) else list(environments)
    classes: list[AnyEnvironment] = [target for target in targets if isinstance(target, type)]
    names = [target.__name__ if isinstance(target, type) else os.fspath(target) for target in targets]
    request = build_request({**settings, "environments": names, "model": model}, "evaluate()", _OWN)
    if classes and (request.served or request.pool != "local"):
        raise ConfigError(
            f"{classes[0].__name__} is a class of this process, which no other process can play; "
            "leave served and pool out, or put the class into a file and give its path"
        )
    keys = load_credentials(os.environ, Path.cwd()) if credentials is None else credentials
    request = request if resume else with_default_model(request, keys)
    with held(classes):
        return await _played(request, None if directory is None else Path(directory), resume, progress, keys)


async def _played(
    request: RunRequest, directory: Path | None, resume: bool, progress: bool | None, credentials: Credentials
) -> Run:
    plan = make_plan(request)
    if directory is None:
        if resume:
            raise ConfigError("evaluate(): resume needs the run's directory")
        directory = default_directory(plan)
    stop = StopSignal()
    live = LiveRun(stop)
    async with raise_first_error():
        with _bar(progress) as bar:
            async with (
                open_live_server(live, os.environ, bar.note),
                observed(
                    plan,
                    directory,
                    bar,
                    is_resumed=resume,
                    credentials=credentials,
                    live=live,
                    note=bar.note,
                    warn=bar.note,
                    elsewhere=_ELSEWHERE,
                ) as (observer, _),
            ):
                await play_run(
                    plan,
                    directory,
                    given=as_toml(request),
                    resume=resume,
                    credentials=credentials,
                    observer=observer,
                    stop=stop,
                    live=live,
                )
    return open_run(directory)


class _Bar:
    """A progress bar: rollouts done of those planned, and the mean reward so far."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._played = progress, PlayedSoFar()
        self._task = progress.add_task("opening", total=None, figures="")

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Show the number of planned and done rollouts when the run begins to play."""
        self._played.start(planned, done)
        figures = f"{bad_rows} bad rows" if bad_rows else ""
        self._progress.update(self._task, description="playing", total=planned, completed=done, figures=figures)

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count rollouts that the store has committed."""
        self._played.add(rollouts)
        mean = self._played.means.mean_reward
        figures = "" if mean is None else f"mean reward {number(mean)}"
        self._progress.update(self._task, completed=self._played.done, figures=figures)

    def stopped(self, reason: str) -> None:
        """Print why the run ends early."""
        self.note(f"stopped: {reason}")

    def note(self, line: str) -> None:
        """Print a remark above the bar."""
        self._progress.console.print(line, markup=False, highlight=False)


@contextmanager
def _bar(wanted: bool | None) -> Generator[_Bar]:
    console = Console(stderr=True)
    is_shown = console.is_terminal or console.is_jupyter if wanted is None else wanted
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not is_shown) as progress:
        yield _Bar(progress)


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
