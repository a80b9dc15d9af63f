"""What `hub run` does: merges the settings, chooses the directory, plays the tasks, and prints progress and results."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

import anyio
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.final_tables import print_summary, warn_of_unscored
from rollouthub.cli.run.run_progress import LiveView
from rollouthub.engine.directories import default_directory
from rollouthub.engine.foreign_run import refuse_settings
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.policy_model import with_default_model
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest, as_toml, build_request, request_from_file
from rollouthub.engine.run_summary import RunSummary, summarise
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError, RunDirectoryError, StoreError, raise_first_error
from rollouthub.event_loop import run_async
from rollouthub.hosting.launch import is_address
from rollouthub.live.control.live_server import open_live_server
from rollouthub.live.control.observers import observed
from rollouthub.models.batch_run import BATCHES
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.openai.batch_journal import batch_facts
from rollouthub.models.registered import found_servers
from rollouthub.protocols import AttendedAgent
from rollouthub.store import open_run
from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.trackers.tracked_run import Tracking

SECOND_SIGNAL = 2
TIDYING_SECONDS = 2.0
"""Seconds, beyond the deadline for closing an episode, that clean-up may take when a run is stopped at once."""
INTERRUPTED = 130
_ELSEWHERE = "play it with --served (--servers N), in processes of its own"
NO_MODEL = (
    "No model was used: the oracle played the reference solutions. Name a model with -m, for example -m mock/solver"
)


def run_command(
    given: dict[str, Any], config: Path | None, output: Path | None, resume: bool, as_json: bool, quiet: bool
) -> int:
    """Run the tasks and print the results; returns the exit code."""
    started, cpu = time.perf_counter(), cpu_seconds()
    credentials = load_credentials(os.environ, Path.cwd())
    request = request_of(given, config, output, resume)
    request = request if resume else with_default_model(request, credentials)
    plan = make_plan(request)
    directory = output or default_directory(plan)
    view = LiveView(remarks(), plan, is_quiet=quiet, directory=directory)
    run = TerminalRun(plan, directory, as_toml(request), resume, credentials, view)
    for line in found_servers([*plan.models, *request.roles.values()], credentials.get):
        view.note(line)
    failure: StoreError | None = None
    try:
        with view, log_to_run(directory):
            run_async(run.play)
    except StoreError as error:
        if not (directory / "run.db").exists():
            raise
        failure = error
    if run.is_interrupted and not (directory / "run.db").exists():
        return INTERRUPTED  # before there was a run to sum up
    with open_run(directory) as reader:
        summary = summarise(
            reader,
            seconds=time.perf_counter() - started,
            cpu_seconds=cpu_seconds() - cpu,
            is_interrupted=run.is_interrupted,
        )
    _show(summary, as_json, quiet, failure, batch_facts(directory / BATCHES))
    if request.model is None and request.agent is None and summary.scored and not quiet:
        (remarks() if as_json else results()).print(NO_MODEL)
    code = _exit_code(summary, failure, run.is_interrupted)
    if run.is_held_up:
        sys.stdout.flush()
        os._exit(code)
    return code


class TerminalRun:
    """A run started from the terminal, with the signals and the live control that can end it early."""

    def __init__(
        self, plan: Plan, directory: Path, given: str, resume: bool, credentials: Credentials, view: LiveView
    ) -> None:
        self._plan, self._directory, self._given, self._resume = plan, directory, given, resume
        self._credentials, self._view = credentials, view
        self._stop = StopSignal()
        self._patience: asyncio.TimerHandle | None = None
        self._everything: anyio.CancelScope | None = None
        self._tracking: Tracking | None = None
        self.is_interrupted = False

    @property
    def is_held_up(self) -> bool:
        """Whether a tracker's thread that does not end would keep this process from exiting."""
        return self._tracking is not None and self._tracking.is_stuck

    async def play(self) -> None:
        """Play the tasks until all are done or the run is cancelled."""
        try:
            async with raise_first_error():
                await self._play()
        finally:
            if self._patience is not None:
                self._patience.cancel()

    async def _play(self) -> None:
        live = LiveRun(self._stop, self)
        async with open_live_server(live, os.environ, self._view.note):
            async with anyio.create_task_group() as watchers:
                self._everything = watchers.cancel_scope
                watchers.start_soon(self._watch_signals)
                watchers.start_soon(self._view.refresh)
                async with observed(
                    self._plan,
                    self._directory,
                    self._view,
                    is_resumed=self._resume,
                    credentials=self._credentials,
                    live=live,
                    note=self._view.note,
                    warn=self._view.warn,
                    elsewhere=_ELSEWHERE,
                ) as (observer, self._tracking):
                    await play_run(
                        self._plan,
                        self._directory,
                        given=self._given,
                        resume=self._resume,
                        credentials=self._credentials,
                        observer=observer,
                        stop=self._stop,
                        live=live,
                        note=self._view.note,
                    )
                watchers.cancel_scope.cancel()
            if self._patience is not None:
                self._patience.cancel()  # all is tidied up; only those who follow have yet to hear of it

    def interrupt(self) -> None:
        """Start no new episodes; those in flight finish."""
        self.is_interrupted = True
        self._stop.set()
        self._view.note("finishing what is in flight; Ctrl-C again stops at once")

    def cancel(self) -> None:
        """Cancel all episodes now and clean up; if clean-up takes too long, exit without it."""
        self.is_interrupted = True
        self._stop.set()
        self._view.note("stopping now")
        if self._patience is None:
            seconds = self._plan.request.deadlines.close + TIDYING_SECONDS
            self._patience = asyncio.get_running_loop().call_later(seconds, self._leave)
        if self._everything is not None:
            self._everything.cancel()

    async def _watch_signals(self) -> None:
        """The first Ctrl-C lets episodes in flight finish; the second, or a SIGTERM, cancels them. Both clean up.

        One more signal exits without clean-up. Before the first episode, one Ctrl-C cancels.
        """
        count = 0
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for received in signals:
                player = self._plan.agent
                if received == signal.SIGINT and isinstance(player, AttendedAgent) and player.interrupt():
                    continue
                count += 1
                if self._patience is not None:
                    self._leave()
                # Before the first episode there is nothing in flight that could finish.
                if received == signal.SIGTERM or count >= SECOND_SIGNAL or not self._view.has_started:
                    self.cancel()
                else:
                    self.interrupt()

    def _leave(self) -> None:
        """Exit the process at once, since code that ignores its cancellation cannot be ended inside this process."""
        self._view.warn("something ignores that it is cancelled; leaving without it. What is committed is kept.")
        if servers := sys.modules.get("rollouthub.hosting.client.server_process"):  # loaded where a server was started
            servers.kill_running()
        os._exit(INTERRUPTED)


def request_of(given: dict[str, Any], config: Path | None, output: Path | None, resume: bool) -> RunRequest:
    """Build the request from a file, or from the stored run if resuming without an environment, and the given options.

    Raises:
        UsageError: the file, a setting or the directory is invalid.
    """
    values: dict[str, Any] = request_from_file(config) if config else {}
    if resume and output is None:
        raise ConfigError("--resume needs the run's directory: add -o DIR")
    if resume and not given.get("environments") and not values:
        assert output is not None
        stored = output / "resolved.json"
        if not stored.is_file():
            raise RunDirectoryError(f"{output} holds no run to resume; name an environment to start one there")
        refuse_settings(output)
        values = request_from_file(stored)
        _require_files(values, output, stored)
    values["set"] = _outspoken(values.get("set", {}), given.get("set", {}))
    return build_request(_merged(values, given), "command line" if not config else str(config))


def _require_files(values: dict[str, Any], output: Path, stored: Path) -> None:
    """Raise an error with advice if an environment file of the stored run does not exist, as on another machine."""
    named = (re.fullmatch(r"(.+\.(?:py|toml))(?::\w+)?", target) for target in values.get("environments", ()))
    gone = [found[1] for found in named if found and not is_address(found[0]) and not Path(found[1]).exists()]
    if gone:
        raise RunDirectoryError(
            f"{output} was made with {', '.join(map(repr, gone))}, which is not here; say where it is now: "
            f"hub run FILE --config {stored} --resume -o {output}"
        )


def _outspoken(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Stored settings without the `ENV.key` forms of keys given now: `ENV.key` would override a bare `key`."""
    return {name: value for name, value in stored.items() if name.partition(".")[2] not in given}


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], cast(dict[str, Any], value)) if both else value
    return merged


def _show(summary: RunSummary, as_json: bool, quiet: bool, failure: StoreError | None, batches: dict[str, Any]) -> None:
    if as_json:
        sys.stdout.write(json.dumps({**summary.as_json(), **batches}) + os.linesep)
    elif quiet:
        warn_of_unscored(summary)
    else:
        print_summary(results(), summary)
    if failure is not None:
        remarks().print(Text(f"error: {failure}", style="bold red"))


def _exit_code(summary: RunSummary, failure: StoreError | None, is_interrupted: bool) -> int:
    if is_interrupted:
        return INTERRUPTED
    return 1 if failure is not None or summary.scored < summary.rollouts else 0
