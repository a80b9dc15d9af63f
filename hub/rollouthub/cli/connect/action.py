"""What `hub connect` does: reserves stdout for MCP, and serves from a process that the app's kill does not end."""

import gc
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from rollouthub.cli.connect.connect_options import ConnectOptions
from rollouthub.cli.find_run import user_store
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
    """The environment, options and settings given to `hub connect`."""

    environment: str
    options: ConnectOptions
    settings: dict[str, Any]
    words: list[str]
    """The settings as words of a command line."""

    @property
    def target(self) -> str:
        """The environment without its version."""
        return self._parts[0]

    @property
    def version(self) -> str | None:
        """The version given as `ENV@VERSION`; None if none was given."""
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
        """A short form of the environment's name for file names and app configurations."""
        stem = Path(self.target).stem if self.is_file else self.target
        return re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:_LONGEST_NAME] or "environment"

    @property
    def is_file(self) -> bool:
        """Whether the environment is named by a path."""
        return not is_address(self.target) and (
            self.target.startswith((".", "/", "~")) or self.target.endswith((".py", ".toml")) or ".py:" in self.target
        )


def connect_command(chosen: Chosen) -> int:
    """Serve an app as its MCP server; returns the exit code."""
    _ = chosen.target  # refused before there is a second process
    root = user_store(os.environ) if chosen.options.output is None else chosen.options.output
    directory = root / f"{chosen.short_name}-desktop-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return outlive(partial(_serve, chosen, directory))


def _serve(chosen: Chosen, directory: Path, lifeline: int) -> int:
    """Serve the episode, in the process that survives when the app kills its MCP server, until it is scored."""
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

    def up(session: AgentSession) -> None:
        task = session.sample.task_ref
        _say(f"{session.sample.context.environment.name}, {task.split} {task.id}; the record goes to {directory}")

    order = ConnectOrder(
        request=build_request(_settings(chosen), "command line"),
        task=EpisodeRequest(task=chosen.options.task, split=chosen.settings.get("split"), pick="random"),
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


def _settings(chosen: Chosen) -> dict[str, Any]:
    return {**chosen.settings, "environments": [chosen.target], "skip_bad": True}


def _say(text: str) -> None:
    """Write to stderr, which the app logs; stdout carries only MCP messages."""
    typer.echo(f"hub connect: {plain(text)}", err=True)


def print_app_config(chosen: Chosen, app: App) -> None:
    """Print the app's configuration for this command on stdout, and the file that it belongs in on stderr.

    Raises:
        UsageError: the environment does not exist, or one of its settings is invalid.
    """
    from rollouthub.engine.plan import make_plan
    from rollouthub.engine.run_request import build_request

    make_plan(build_request(_settings(chosen), "command line"), external_agents=True)
    form = app_config(app, chosen.short_name, [*_hub(), "connect", *_arguments(chosen)])
    typer.echo(form.text)
    typer.echo(f"# {form.place}", err=True)


def _hub() -> list[str]:
    """The words that start `hub` by absolute path, for programs that have no PATH."""
    started = Path(sys.argv[0])
    if started.name == "hub" and (found := shutil.which(started)):
        return [str(Path(found).absolute())]
    beside = Path(sys.executable).with_name("hub")
    if beside.is_file():
        return [str(beside)]
    return [*HUB]


def _arguments(chosen: Chosen) -> list[str]:
    """The arguments of `hub connect` with absolute paths, since an app may start it in any folder."""
    environment = chosen.environment
    if chosen.is_file:
        environment = str(Path(chosen.target).expanduser().absolute()) + (
            f"@{chosen.version}" if chosen.version else ""
        )
    output = chosen.options.output
    if output is None and "XDG_DATA_HOME" in os.environ:
        output = user_store(os.environ)  # an app may be started without the variable
    task = [] if chosen.options.task is None else ["--task", chosen.options.task]
    place = [] if output is None else ["-o", str(output.expanduser().absolute())]
    return [environment, *chosen.words, *task, *place]
