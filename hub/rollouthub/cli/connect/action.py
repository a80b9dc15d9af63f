"""What `hub connect` does: choose the place, keep stdout to MCP, and open the episode where no kill reaches it."""

import gc
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from rollouthub.cli.find_run import user_store
from rollouthub.cli.options import run_settings, some
from rollouthub.errors import ConfigError
from rollouthub.gateway.app_configs import App, app_config
from rollouthub.gateway.connect_keeper import outlive
from rollouthub.hosting.launch import is_address
from rollouthub.hosting.server.stdio_pipe import keep_to_ourselves
from rollouthub.processes import HUB
from rollouthub.text import plain

_UNSCORED = 1
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Chosen:
    """The command line's options."""

    environment: str
    task: str | None
    split: str | None
    settings: list[str]
    seed: int | None
    roles: list[str]
    max_turns: int | None
    max_seconds: float | None
    output: Path | None

    @property
    def target(self) -> str:
        """The environment without its version."""
        return self._parts[0]

    @property
    def version(self) -> str | None:
        """The version asked for."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, str | None]:
        name, at, version = self.environment.rpartition("@")
        if not at or is_address(self.environment) or Path(self.environment).exists():
            return self.environment, None
        if not name or not version:
            raise ConfigError(f"{self.environment!r} is not ENV@VERSION, for example arithmetic@0.1.0")
        return name, version

    @property
    def short_name(self) -> str:
        """The environment, as file names and apps take it."""
        stem = Path(self.target).stem if self.is_file else self.target
        return re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:_LONGEST_NAME] or "environment"

    @property
    def is_file(self) -> bool:
        """Whether the environment is named by a path."""
        return not is_address(self.target) and (
            self.target.startswith((".", "/", "~")) or self.target.endswith((".py", ".toml")) or ".py:" in self.target
        )


def connect_command(chosen: Chosen) -> int:
    """Be an app's MCP server; the exit code."""
    _ = chosen.target  # refused before there is a second process
    root = user_store(os.environ) if chosen.output is None else chosen.output
    directory = root / f"{chosen.short_name}-desktop-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return outlive(partial(_serve, chosen, directory))


def _serve(chosen: Chosen, directory: Path, lifeline: int) -> int:
    """In the process that no app can kill before it is done."""
    stdin, stdout = keep_to_ourselves()
    gc.disable()  # nothing of what is loaded now is ever garbage: a tenth of the time an app waits
    # MCP, HTTP and the engine: only here, as the process that waits needs none of it.
    from rollouthub.cli.logs import log_to_run
    from rollouthub.engine.run_request import build_request
    from rollouthub.gateway.app_connection import AppConnection, ConnectOrder
    from rollouthub.gateway.connect_keeper import until_alone
    from rollouthub.gateway.sessions.session import AgentSession
    from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
    from rollouthub.hosting.server.server_lifetime import serve_to_the_end
    from rollouthub.models.credentials import load_credentials

    gc.enable()

    def up(visit: AgentSession) -> None:
        task = visit.item.task_ref
        _say(f"{visit.item.cast.environment.name}, {task.split} {task.id}; the record goes to {directory}")

    order = ConnectOrder(
        request=build_request(_settings(chosen), "command line"),
        task=EpisodeRequest(task=chosen.task, split=chosen.split, pick="random"),
        version=chosen.version,
        directory=directory,
        credentials=load_credentials(os.environ, Path.cwd()),
        stdin=stdin,
        stdout=stdout,
    )
    connection = AppConnection(order, _say)
    with log_to_run(directory):
        code = serve_to_the_end(connection.serve, up, partial(until_alone, lifeline))
    return code or (_UNSCORED if connection.is_unscored else 0)


def _settings(chosen: Chosen) -> dict[str, object]:
    return run_settings(
        environments=[chosen.target],
        split=chosen.split,
        set=chosen.settings,
        seed=chosen.seed,
        roles=chosen.roles,
        limits=some(max_turns=chosen.max_turns, max_seconds=chosen.max_seconds),
        skip_bad=True,
    )


def _say(text: str) -> None:
    """To the app's log: stdout is MCP's."""
    typer.echo(f"hub connect: {plain(text)}", err=True)


def print_app_config(chosen: Chosen, app: App) -> None:
    """Print what makes an app start this command: the form on stdout, where it goes on stderr.

    Raises:
        UsageError: there is no such environment, or a setting of it does not hold: the app would only find out later.
    """
    from rollouthub.engine.plan import make_plan
    from rollouthub.engine.run_request import build_request

    make_plan(build_request(_settings(chosen), "command line"))
    form = app_config(app, chosen.short_name, [*_hub(), "connect", *_arguments(chosen)])
    typer.echo(form.text)
    typer.echo(f"# {form.place}", err=True)


def _hub() -> list[str]:
    """This command, as a program that knows no PATH starts it."""
    started = Path(sys.argv[0])
    if started.name == "hub" and (found := shutil.which(started)):
        return [str(Path(found).absolute())]
    beside = Path(sys.executable).with_name("hub")
    if beside.is_file():
        return [str(beside)]
    return [*HUB]


def _arguments(chosen: Chosen) -> list[str]:
    """The options as given, with paths that hold wherever an app starts."""
    environment = chosen.environment
    if chosen.is_file:
        environment = str(Path(chosen.target).expanduser().absolute()) + (
            f"@{chosen.version}" if chosen.version else ""
        )
    output = chosen.output
    if output is None and "XDG_DATA_HOME" in os.environ:
        output = user_store(os.environ)  # an app may be started without the variable
    pairs = {
        "--task": chosen.task,
        "--split": chosen.split,
        "--seed": chosen.seed,
        "--max-turns": chosen.max_turns,
        "--max-seconds": chosen.max_seconds,
        "-o": None if output is None else output.expanduser().absolute(),
    }
    arguments = [environment]
    for option, values in (("--set", chosen.settings), ("--role", chosen.roles)):
        arguments += [word for value in values for word in (option, value)]
    return arguments + [word for option, value in pairs.items() if value is not None for word in (option, str(value))]
