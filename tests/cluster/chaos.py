"""Kill loops on a Ray cluster of a head and two nodes: what is lost, doubled, or left behind. Prints a table.

    python -m tests.cluster.chaos --runs 50 --seed 7

Each run plays served episodes with two workers; at a random moment a worker, a node, an environment server or the
driver is killed. Where the driver died, the run is resumed. Every victim is seen alive before it is killed.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from rollouthub import Outcome
from rollouthub.store import open_run

VICTIMS = ("worker", "node", "server", "driver")
ROLLOUTS = 240
HUB = (sys.executable, "-c", "from rollouthub.cli.main import main; main()")
MARK = "ROLLOUTHUB_CHAOS_RUN"
"""A variable in the environment of all that a run starts."""
RUN_SECONDS, GONE_SECONDS = 150.0, 30.0


@dataclass
class Result:
    """What one run came to."""

    run: int
    victim: str
    at_rollout: int
    """Rollouts that were committed when the victim was killed."""
    completed: bool
    lost: int = 0
    """Rollouts that were finished before the kill and are not there now, or are another."""
    doubled: int = 0
    """Rollouts with more than one effective record, or an attempt that is kept twice."""
    missing: int = 0
    """Planned rollouts that are not scored in the end."""
    retried: int = 0
    orphans: int = 0
    """Processes of the run that live after it."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list[str])

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, doubled or left."""
        return self.completed and not (self.lost or self.doubled or self.missing or self.orphans)


class Nodes:
    """The cluster: a head that plays nothing, and two nodes with one slot each."""

    def __init__(self) -> None:
        os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_raylet_start_wait_time_s="120")
        from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingTypeStubs]

        self._cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self._nodes: list[Any] = []
        self.mend()

    @property
    def address(self) -> str:
        """For drivers."""
        return str(self._cluster.address)

    def mend(self) -> None:
        """Have two nodes again."""
        while len(self._nodes) < 2:
            self._nodes.append(self._cluster.add_node(num_cpus=1))

    def kill_one(self, chance: random.Random) -> str:
        """Take a node away as a power cut would."""
        node = chance.choice(self._nodes)
        raylets = [process.process.pid for process in node.all_processes["raylet"]]
        assert all(map(_is_alive, raylets)), "the victim must be alive"
        self._nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)
        return f"node with raylet {raylets[0]}"

    def stop(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


@contextmanager
def cluster() -> Generator[Nodes]:
    """A cluster for as long as it is needed."""
    nodes = Nodes()
    try:
        yield nodes
    finally:
        nodes.stop()


def one_run(number: int, nodes: Nodes, victim: str, chance: random.Random, folder: Path) -> Result:
    """Play, kill, resume where the driver was the victim, and look at what is there."""
    directory, mark = folder / f"run-{number}", f"{os.getpid()}-{number}-{chance.randrange(1 << 30)}"
    moment = chance.randrange(10, ROLLOUTS - 60)
    began = time.monotonic()
    driver = _hub(directory, nodes.address, mark)
    result = Result(number, victim, -1, completed=False)
    try:
        if not _wait(lambda: len(_scored(directory)) >= moment or driver.poll() is not None, RUN_SECONDS):
            result.notes.append("never came to the moment")
        before = _scored(directory)
        result.at_rollout = len(before)
        assert driver.poll() is None, "the run must be alive when its victim is killed"
        result.notes.append(_kill(victim, nodes, driver, mark, chance))
        if victim == "driver":
            driver.wait(GONE_SECONDS)
            result.orphans = _left(mark)
            driver = _hub(directory, nodes.address, mark, "--resume")
        driver.wait(RUN_SECONDS)
        result.completed = driver.returncode == 0
        if not result.completed:
            result.notes.append((directory.parent / f"{directory.name}.log").read_text()[-600:])
    except subprocess.TimeoutExpired:
        result.notes.append(f"not over after {RUN_SECONDS:g} s")
        before = {}
    finally:
        with suppress(ProcessLookupError):
            driver.kill()
        driver.wait()
        nodes.mend()
    result.orphans += _left(mark)
    _compare(result, directory, before)
    result.seconds = round(time.monotonic() - began, 1)
    return result


def _hub(directory: Path, address: str, mark: str, *more: str) -> subprocess.Popen[bytes]:
    command = [*HUB, "run", "arithmetic", "--served", "-m", "mock/solver?latency=0.05..0.3", "--limit", str(ROLLOUTS)]
    command += ["--seed", "1", "-c", "24", "--pool", "ray", "--workers", "2", "--ray-address", address]
    command += [
        "-o",
        str(directory),
        "--no-track",
        "--quiet",
        "--json",
        "--config",
        str(_settings(directory, mark)),
        *more,
    ]
    with (directory.parent / f"{directory.name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, MARK: mark})


def _settings(directory: Path, mark: str) -> Path:
    """What the command line cannot say: the mark reaches the workers through Ray's runtime environment."""
    path = directory.parent / f"{directory.name}.toml"
    path.write_text(f'[ray.runtime_env.env_vars]\n{MARK} = "{mark}"\n')
    return path


def _kill(victim: str, nodes: Nodes, driver: subprocess.Popen[bytes], mark: str, chance: random.Random) -> str:
    if victim == "node":
        return nodes.kill_one(chance)
    if victim == "driver":
        pid = driver.pid
    else:
        workers = [pid for pid in _marked(mark) if b"ray::Worker" in _command(pid)]
        servers = [pid for pid in _marked(mark) if b"serve-env" in _command(pid) and _parent(pid) in workers]
        found = workers if victim == "worker" else servers
        assert found, f"there is no {victim} to kill"
        pid = chance.choice(found)
    assert _is_alive(pid), "the victim must be alive"
    os.kill(pid, signal.SIGKILL)
    return f"{victim} {pid}"


def _scored(directory: Path) -> dict[str, str]:
    """Rollout id → the record's body, of those that are scored and committed."""
    if not (directory / "run.db").exists():
        return {}
    with open_run(directory) as reader:
        return {each.rollout_id: each.model_dump_json() for each in reader.rollouts() if each.outcome is Outcome.SCORED}


def _compare(result: Result, directory: Path, before: dict[str, str]) -> None:
    with open_run(directory) as reader:
        every = list(reader.rollouts(effective=False))
    after = _scored(directory)
    with open_run(directory) as reader:
        effective = [each.rollout_id for each in reader.rollouts()]
    attempts = [(each.rollout_id, each.attempt) for each in every]
    result.lost = sum(after.get(name) != body for name, body in before.items())
    result.doubled = len(effective) - len(set(effective)) + len(attempts) - len(set(attempts))
    result.missing = ROLLOUTS - len(after)
    result.retried = len(attempts) - len(set(effective))


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes() and _is_alive(int(folder.name)):
                yield int(folder.name)


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _left(mark: str) -> int:
    """How many of a run's processes do not go."""
    _wait(lambda: not list(_marked(mark)), GONE_SECONDS)
    left = list(_marked(mark))
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def kill_loop(runs: int, seed: int, say: Callable[[str], None]) -> list[Result]:
    """So many runs, the victims in turn."""
    chance, results = random.Random(seed), list[Result]()
    with tempfile.TemporaryDirectory() as folder, cluster() as nodes:
        for number in range(runs):
            result = one_run(number, nodes, VICTIMS[number % len(VICTIMS)], chance, Path(folder))
            results.append(result)
            say(row(result))
    return results


def row(result: Result) -> str:
    """A line of the table."""
    *values, notes = astuple(result)
    return "  ".join(f"{value!s:>10}" for value in values) + "  " + " ".join(notes).replace("\n", " ")


def header() -> str:
    """The table's first line."""
    return "  ".join(f"{each.name:>10}" for each in fields(Result)[:-1])


def main() -> int:
    """Run the loop; exit code 1 where anything was lost, doubled or left behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    say(header())
    results = kill_loop(given.runs, given.seed, say)
    good = sum(result.is_good for result in results)
    say(
        f"{good} of {len(results)} runs completed with nothing lost ({sum(r.lost for r in results)}), "
        f"doubled ({sum(r.doubled for r in results)}) or left ({sum(r.orphans for r in results)})"
    )
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
