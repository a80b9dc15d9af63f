"""Real runs of the hub in their own processes, at a given pace: `arithmetic`, played by a mock model that takes
time.
"""

import contextlib
import os
import sqlite3
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.processes import HUB
from rollouthub.telemetry.cpu import cpu_of

IN_FLIGHT = 100
_SAMPLES = 10
_CALLS = 2
"""Model calls in each rollout."""
_START_SECONDS = 60.0
_FOLDERS = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "runtime", "TMPDIR": "temporary"}


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A running run of the benchmark."""

    process: "subprocess.Popen[bytes]"
    directory: Path

    @property
    def done(self) -> int:
        """Number of finished rollouts in the store."""
        with contextlib.suppress(sqlite3.Error):
            uri = f"{(self.directory / 'run.db').absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=1)) as connection:
                return connection.execute("SELECT coalesce(max(id), 0) FROM rollouts").fetchone()[0]
        return 0

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that its process has used."""
        return cpu_of(self.process.pid)

    @property
    def is_over(self) -> bool:
        """Whether its process has ended."""
        return self.process.poll() is not None


def world(scratch: Path) -> dict[str, str]:
    """Environment variables for the benchmark's own folders, so that it neither reads the user's files nor sees
    other hubs.
    """
    folders = {name: scratch / folder for name, folder in _FOLDERS.items()}
    for folder in folders.values():
        folder.mkdir(mode=0o700, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOSTED_VLLM_"))}
    return kept | {name: str(folder) for name, folder in folders.items()} | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@contextmanager
def play(directory: Path, environ: Mapping[str, str], rollouts: int, per_second: float = 200.0) -> Generator[PlayedRun]:
    """Play `rollouts` rollouts at a given pace, one in fifty of them unscored; the run is ended with the block.

    Raises:
        HubError: the run did not start.
    """
    latency = IN_FLIGHT / per_second / _CALLS
    model = f"mock/solver?accuracy=0.6&fail=0.01&latency={latency * 0.8:.3f}..{latency * 1.2:.3f}"
    command = [*HUB, "run", "arithmetic", "-m", model, "--limit", str(max(1, rollouts // _SAMPLES))]
    command += ["--repeats", str(_SAMPLES), "-c", str(IN_FLIGHT), "--retries", "0", "--seed", "7", "-q"]
    with subprocess.Popen(
        [*command, "-o", str(directory)],
        cwd=directory.parent,
        env=dict(environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        run = PlayedRun(process, directory)
        try:
            until = time.monotonic() + _START_SECONDS
            while not run.done:
                if run.is_over or time.monotonic() > until:
                    raise HubError(f"the run that is to be watched did not come up ({process.poll()})")
                time.sleep(0.02)
            yield run
        finally:
            process.terminate()
            process.communicate()


def play_out(directory: Path, environ: Mapping[str, str], rollouts: int) -> None:
    """Play `rollouts` rollouts as fast as possible."""
    with play(directory, environ, rollouts, 1e6) as run:
        run.process.wait()
