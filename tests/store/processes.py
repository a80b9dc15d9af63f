"""Real processes around a run: writers to kill, readers of another user."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

WRITER = """
import sys
from pathlib import Path

import anyio

from rollouthub.store import LiveState, open_writer
from tests.store.records import RESOLVED, record

directory, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def tell(rollouts):
    print(*(rollout.rollout_id for rollout in rollouts), sep="\\n", flush=True)


async def main():
    async with open_writer(directory, resolved=RESOLVED, given="", resume=True, on_commit=tell) as writer:
        print("done", writer.done_count, flush=True)
        for number in range(first, first + count):
            if not writer.is_done(f"g{number}-0"):
                state = LiveState(f"g{number}-0", "arithmetic", "t", 0, 0, "model", 0, 0, 0.0)
                writer.set_live(state.rollout_id, lambda state=state: state)
                await writer.add(record(f"g{number}-0"))
                if number % 20 == 0:
                    await writer.flush()
        await anyio.sleep_forever()


anyio.run(main)
"""
"""Commits `count` samples from `first` on, prints the id of each when it is durable, then waits to be killed."""

READER = """
import os, sys
from pathlib import Path

from rollouthub import HubError
from rollouthub.store import open_run

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    (Path(sys.argv[1]) / "probe").write_text("")
    sys.exit("the directory can be written")
except OSError:
    pass
with open_run(Path(sys.argv[1])) as run:
    print(run.info.status, len([rollout.turns for rollout in run.rollouts()]))
"""
"""Reads a run as a user who may not write there; prints its status and how many records it has."""

STRIPPED = """
import sys
from pathlib import Path

for name in ("rollouthub_servers", "rollouthub_agents", "mcp"):
    sys.modules[name] = None

from rollouthub.store import open_run

with open_run(Path(sys.argv[1])) as run:
    print(run.rollout(sys.argv[2]).turns[1].output_token_ids.tolist())
"""
"""Prints the token ids of a rollout's second turn, where no environment can be imported."""


def start_writer(directory: Path, first: int = 0, count: int = 10_000) -> "subprocess.Popen[str]":
    """A process that writes a run until it is killed."""
    command = [sys.executable, "-c", WRITER, str(directory), str(first), str(count)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def read_as_another(directory: Path) -> str:
    """What a reader without any right to write sees, once the run's user lets others read it."""
    directory.chmod(directory.stat().st_mode | 0o055)
    for file in directory.iterdir():
        file.chmod(file.stat().st_mode | (0o055 if file.is_dir() else 0o044))
    return _output(READER, str(directory))


def read_without_packages(directory: Path, rollout_id: str) -> str:
    """The token ids of a rollout's second turn, read without any environment installed."""
    return _output(STRIPPED, str(directory), rollout_id)


def _output(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    return (ended.stdout + ended.stderr).strip()


def make_read_only(mount: Path) -> None:
    """Turn a mounted file system read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
