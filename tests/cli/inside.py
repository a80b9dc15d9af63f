"""The command line inside this process: as people type it, without a second for each start."""

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rollouthub.cli.estimate.command import estimate
from rollouthub.cli.fingerprint.command import fingerprint
from rollouthub.cli.main import app
from rollouthub.cli.run.command import run
from rollouthub.cli.show.command import show
from rollouthub.errors import HubError, UsageError

from .conftest import KEYS

Inside = Callable[..., "Said"]


class Said:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """What it printed, which must be one JSON value and nothing else."""
        return json.loads(self.out)

    def refused(self) -> str:
        """Its complaint."""
        assert self.code == 2, (self.code, self.out, self.err)
        return self.err


def options_of(command: str) -> dict[str, Any]:
    """A command's parameters by their flags, arguments by their metavar."""
    found: Any = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    return {
        flag: parameter
        for parameter in found.get_params(typer.Context(found))
        for flag in (parameter.opts if parameter.param_type_name == "option" else [parameter.metavar])
    }


@contextmanager
def hub_inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Inside]:
    """Runs `hub run`, `hub estimate`, `hub fingerprint` and `hub show` in a folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_DATA_HOME", os.devnull)
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    some = typer.Typer(pretty_exceptions_enable=False)
    for name, command in (("run", run), ("estimate", estimate), ("fingerprint", fingerprint)):
        some.command(name, cls=command.kind)(command.function)
    some.command("show")(show)

    def call(*arguments: str | Path) -> Said:
        result = CliRunner().invoke(some, [str(argument) for argument in arguments])
        error = result.exception
        if isinstance(error, HubError):
            return Said(2 if isinstance(error, UsageError) else 1, result.stdout, str(error))
        if error is not None and not isinstance(error, SystemExit):
            raise error
        return Said(result.exit_code, result.stdout, result.stderr)

    yield call
