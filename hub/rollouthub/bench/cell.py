"""What benchmarks start: cells, each a fresh process that measures one thing, and the mock model server beside them."""

import json
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rollouthub.errors import HubError
from rollouthub.processes import HUB, PYTHON

CELL_SECONDS = 900.0
START_SECONDS = 30


def run_cell(module: str, *arguments: object, what: str, seconds: float = CELL_SECONDS) -> dict[str, Any]:
    """Run a module of this package with these arguments, and return the JSON that it prints last.

    Raises:
        HubError: it failed, or took longer than `seconds`; `what` names it.
    """
    command = [*PYTHON, "-m", f"rollouthub.bench.{module}", *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise HubError(f"{what} was not over after {seconds:.0f} s; ask for fewer rollouts (--rollouts)") from None
    if done.returncode:
        raise HubError(f"{what} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def mock_server(model: str = "mock/solver") -> Generator[str]:
    """Start a mock model server in its own process, without latency unless its name sets one; yields its address."""
    with mock_process(model) as (url, _):
        yield url


@contextmanager
def mock_process(model: str) -> Generator[tuple[str, int]]:
    """Start a mock model server in its own process; yields its address and process id.

    Raises:
        HubError: the server did not start.
    """
    command = [*HUB, "serve", "mock", model]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.search(r"http://\S+", line)
            if address is None:
                raise HubError(f"the mock server did not come up; it said {line!r}")
            yield address[0], server.pid
        finally:
            server.terminate()
            server.wait(START_SECONDS)
