"""Environments for audits: a set with tasks that are broken on purpose, and the command that audits it."""

import json
import os
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from rollouthub.errors import HubError, UsageError
from rollouthub_registry.audit.command import audit
from tests.cli.conftest import warm

SEEDED = '''
"""Sums: every fourth is paid for nothing, and every fourth has a wrong reference."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from rollouthub import Environment, Message, Public, Secret, Submission, Task
from rollouthub.environment import EnvironmentConfig


class SumSecret(Secret):
    total: str
    kind: str


class SumConfig(EnvironmentConfig):
    count: int = 8
    """Number of tasks."""
    start: str = ""
    """What each id starts with."""
    signal_once: str = ""
    """A file: until it is there, the sixth task's verifier makes it and signals its own process."""
    signal: int = 9
    """The signal."""


class Sums(Environment[SumConfig]):
    """Sums, some of them broken."""

    version = "0.2.0"

    @classmethod
    def splits(cls, config: SumConfig) -> tuple[str, ...]:
        return ("train", "test")

    @classmethod
    def tasks(cls, config: SumConfig, split: str, seed: int) -> Iterable[Task]:
        for number in range(config.count):
            kind = {1: "free", 2: "wrong"}.get(number % 4, "sound")
            total = str(1000 + 7 * number + seed)
            reference = (Message(role="assistant", content=total if kind != "wrong" else "12"),)
            public = Public(id=f"{config.start}sum-{number}", prompt=f"Say {total} as an integer.")
            yield Task(public, SumSecret(total=total, kind=kind, reference=reference))

    async def verify(self, submission: Submission) -> bool:
        once = self.config.signal_once
        if once and self.task.public.id.endswith("sum-5") and not Path(once).exists():
            Path(once).touch()
            os.kill(os.getpid(), self.config.signal)
        return self.task.secret.kind == "free" or submission.final.strip() == self.task.secret.total
'''
SOUND = ("sum-0", "sum-3", "sum-4", "sum-7")
DEFECTIVE = ("sum-1", "sum-2", "sum-5", "sum-6")
_PROGRAM = """
import typer
import rollouthub.cli.main as program
from rollouthub_registry.audit.command import audit
program.app = typer.Typer(pretty_exceptions_enable=False)
program.app.command("audit")(audit)
program.main()
"""


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
        assert "Traceback" not in self.err
        return " ".join(self.err.replace("│", " ").split())


def seeded(folder: Path) -> Path:
    """Write the set with broken tasks."""
    file = folder / "sums.py"
    file.write_text(SEEDED, encoding="utf-8")
    return file


def hub_audit(*arguments: str | Path) -> Said:
    """Run `hub audit` in this process."""
    some = typer.Typer(pretty_exceptions_enable=False)
    some.command("audit")(audit)
    result = CliRunner().invoke(some, [str(argument) for argument in arguments])
    error = result.exception
    if isinstance(error, HubError):
        return Said(2 if isinstance(error, UsageError) else 1, result.stdout, str(error))
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return Said(result.exit_code, result.stdout, result.stderr)


def started_audit(folder: Path, *arguments: str | Path) -> Said:
    """Run `hub audit` in a process of its own."""
    variables = os.environ | {"XDG_DATA_HOME": str(folder)}
    done = warm().run([*map(str, arguments)], folder, variables, 120, program=_PROGRAM)
    return Said(done.returncode, done.stdout, done.stderr)
