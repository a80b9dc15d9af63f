"""The command line as people start it: a process of its own, in a folder of its own."""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .warm import HUB as PROGRAM
from .warm import WarmHub, warm_hub

HUB = [sys.executable, "-c", PROGRAM]
KEYS = ("HOSTED_VLLM_API_BASE", "HOSTED_VLLM_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE")


class Done:
    """How a command ended."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def json(self) -> Any:
        """What it printed, which must be one JSON value and nothing else."""
        return json.loads(self.out)

    def refused(self) -> str:
        """Its complaint, which must fit one screen and be no traceback."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        assert self.err.count("\n") <= 24
        return self.err


Hub = Callable[..., Done]


def environment(**more: str) -> dict[str, str]:
    """This process's environment without model servers and keys, and without a store of the user's own."""
    kept = {key: value for key, value in os.environ.items() if key not in KEYS}
    return kept | {"COLUMNS": "200", "XDG_DATA_HOME": os.devnull} | more


@cache
def warm(more: tuple[str, ...] = ()) -> WarmHub:
    """A `hub` for all tests of this process, so that each need not load it anew; `more` is loaded, too."""
    until_exit = ExitStack()
    atexit.register(until_exit.close)
    return until_exit.enter_context(warm_hub(more))


def hub_in(folder: Path, loads: tuple[str, ...] = (), before: str = "") -> Hub:
    """Runs `hub` with arguments in a folder, in a fork of one that has loaded these, and does `before` first."""

    def run(*arguments: str | Path, timeout: float = 180, **more: str) -> Done:
        words, variables = [*map(str, arguments)], environment(**more)
        if warm(loads).reads_the_same(variables):
            return Done(warm(loads).run(words, folder, variables, timeout, program=before + PROGRAM))
        given: dict[str, Any] = {"cwd": folder, "env": variables, "timeout": timeout, "check": False}
        return Done(subprocess.run([*HUB[:-1], before + PROGRAM, *words], capture_output=True, text=True, **given))

    return run


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """Runs `hub` with arguments in the test's folder."""
    return hub_in(tmp_path)


@contextmanager
def started(folder: Path, *arguments: str | Path, **more: str) -> Generator[subprocess.Popen[str]]:
    """A `hub` that runs beside the test, and is gone after it."""
    command = [*HUB, *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=folder, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(10)


@contextmanager
def mock_server(folder: Path, model: str) -> Generator[str]:
    """A model server in a process of its own; its base URL."""
    with started(folder, "serve", "mock", model, "--port", "0") as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        yield address[0]
