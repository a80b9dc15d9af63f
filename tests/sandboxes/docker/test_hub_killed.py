"""A hub that is killed leaves nothing on its engine; what another one still holds, even a frozen one, is its own."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.conftest import HUB, environment, started
from tests.sandboxes.docker.private_engine import IMAGE, PrivateEngine, private_engine

YARD = Path(__file__).with_name("yard.py")
MANY, FEW = 32, 3
WITH_VOLUME = "yard/volume:1"
Live = Callable[[int], tuple[subprocess.Popen[str], list[str]]]


@pytest.fixture(scope="module")
def engine() -> Generator[PrivateEngine]:
    """An engine that nobody else uses, so that all that is left on it is ours to explain."""
    with private_engine() as found:
        made = found.docker("create", "--network", "none", IMAGE, "true").strip()
        found.docker("commit", "--change", "VOLUME /data", made, WITH_VOLUME)
        found.docker("rm", made)
        yield found


@pytest.fixture
def live(engine: PrivateEngine, tmp_path: Path) -> Generator[Live]:
    """Starts a hub with so many episodes, each of which holds a container and waits in a tool of it."""
    with ExitStack() as stack:

        def start(count: int) -> tuple[subprocess.Popen[str], list[str]]:
            folder = tmp_path / str(count)
            folder.mkdir()
            shutil.copy(YARD, folder)
            settings = {"sandbox": "docker", "size": count, "patient": 1, "image": WITH_VOLUME, "keeps": True}
            given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
            command = ("run", "yard.py", "-a", "oracle", *given, "-c", str(count), "-o", "run", "--json")
            hub = stack.enter_context(started(folder, *command, DOCKER_HOST=engine.host))
            return hub, working(hub, count)

        yield start


def working(hub: subprocess.Popen[str], count: int) -> list[str]:
    """Wait until so many episodes are in their tools; the names of their sandboxes."""
    assert hub.stderr is not None
    names: list[str] = []
    said: list[str] = []
    for line in hub.stderr:
        said.append(line)
        if line.startswith("yard: works"):
            *_, pid, name = line.split()
            assert int(pid) == hub.pid
            names.append(name)
            if len(names) == count:
                return names
    pytest.fail(f"the hub ended with {len(names)} episodes at work: {''.join(said)[-2000:]}")


def owned(
    engine: PrivateEngine, hub: subprocess.Popen[str], kind: str = "ps --all", form: str = "{{.Names}}"
) -> set[str]:
    """What a hub has on the engine, by the label that names its process."""
    return set(engine.docker(*kind.split(), "--filter", f"label=rollouthub.pid={hub.pid}", "--format", form).split())


def images(engine: PrivateEngine, hub: subprocess.Popen[str]) -> set[str]:
    """The snapshots a hub has."""
    return owned(engine, hub, "images", "{{.ID}}")


def emptied(engine: PrivateEngine, hub: subprocess.Popen[str]) -> None:
    """Wait until the engine is done with what it is removing."""
    end = time.monotonic() + 60
    while owned(engine, hub) or images(engine, hub):
        assert time.monotonic() < end, owned(engine, hub)


def sweep(engine: PrivateEngine) -> dict[str, list[str]]:
    """What `hub sandbox sweep` says that it did."""
    done = subprocess.run(
        [*HUB, "sandbox", "sweep", "--json"],
        env=environment(DOCKER_HOST=engine.host),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.soak
def test_nothing_is_left_of_a_killed_hub_and_anothers_is_untouched(engine: PrivateEngine, live: Live) -> None:
    killed, its = live(MANY)
    other, others = live(FEW)
    running = "ps --filter status=running"
    assert set(its) <= owned(engine, killed, running)
    assert set(others) <= owned(engine, other, running)
    assert images(engine, killed)
    assert images(engine, other)
    volumes = set(engine.docker("volume", "ls", "--quiet").split())
    assert len(volumes) > MANY + FEW

    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    swept = sweep(engine)
    assert swept["problems"] == []
    emptied(engine, killed)
    assert set(others) <= owned(engine, other, running)
    assert images(engine, other)

    # One that is frozen is no dead one.
    other.send_signal(signal.SIGSTOP)
    assert not set(sweep(engine)["containers"]) & owned(engine, other)
    assert set(others) <= owned(engine, other, running)
    assert images(engine, other)
    other.send_signal(signal.SIGCONT)

    # And it goes on where it was, and leaves nothing when it ends in good order.
    other.send_signal(signal.SIGTERM)
    other.wait(60)
    assert owned(engine, other) == images(engine, other) == set()
    left = engine.docker("volume", "ls", "--quiet").split()
    assert [name for name in left if not name.startswith("rollouthub-supervisor-")] == []


def test_the_start_of_a_hub_removes_what_a_killed_one_could_not(engine: PrivateEngine, live: Live) -> None:
    killed, its = live(FEW)
    assert set(its) <= owned(engine, killed, "ps --filter status=running")
    # Frozen containers see no end of their input, so these do not end by themselves.
    engine.docker("pause", *its)
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    assert set(its) <= owned(engine, killed)
    next_hub, _ = live(FEW + 1)
    emptied(engine, killed)
    assert next_hub.poll() is None
