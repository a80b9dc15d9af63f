"""Real containers for real tasks: an engine, what stands in for public images, and episodes in them."""

import fcntl
import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from rollouthub import BadRow, Deadlines
from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub_servers.math.checker import close_workers
from rollouthub_servers.reasoning_gym import library
from tests.mcp_servers.containers import STAND_INS, Open, Player
from tests.mcp_servers.leak_places import CONTAINED, PLACES, Place, swe, terminal

# The tests inside of tasks are for containers, not for this run.
collect_ignore = ["harbor_tasks", "stand_ins"]

PYTHON, DEBIAN = "rollouthub-test/python-git:3", "debian:bookworm-slim"
PUBLISHED = "rollouthub-test/published:2"
IMAGES = (
    f'[from]\n"python:3*" = "{PYTHON}"\n"ubuntu:*" = "{DEBIAN}"\n'
    f'"swebench/*" = "{PUBLISHED}"\n"xingyaoww/*" = "{PUBLISHED}"\n'
)


@contextmanager
def one_at_a_time(what: str) -> Generator[None]:
    """Wait for who does the same in another process of the tests: an image that two build at once is made twice."""
    with Path(tempfile.gettempdir(), f"rollouthub-test-{os.getuid()}-{what}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of what stands in for public images, as no registry may be reachable; skipped without an engine."""
    docker: Any = pytest.importorskip("docker")
    try:
        client: Any = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no container engine answers: {error}")
    try:
        client.images.get(DEBIAN)
    except docker.errors.ImageNotFound:
        pytest.skip(f"the engine has no image {DEBIAN}")
    folder = tmp_path_factory.mktemp("stand_in")
    shutil.copy(STAND_INS / "python" / "Dockerfile", folder)
    certificates = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    (folder / "certificates.pem").write_bytes(Path(certificates).read_bytes() if certificates else b"")
    with one_at_a_time("build"):
        client.images.build(path=str(folder), tag=PYTHON, rm=True)
    client.close()
    table = folder / "images.toml"
    table.write_text(IMAGES)
    return str(table)


@pytest.fixture
async def play(images: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Open]:
    """Opens an episode of a task of an environment, in containers."""
    monkeypatch.setenv("ROLLOUTHUB_IMAGES", images)
    async with open_provider("docker") as provider:

        @asynccontextmanager
        async def opened(
            environment: AnyEnvironment,
            config: EnvironmentConfig,
            close_seconds: float = Deadlines().close,
            state: JsonValue = None,
        ) -> AsyncGenerator[Player]:
            host = InProcessHost("made", environment, config, None, provider)
            card = next(host.cards("test", 0))
            assert not isinstance(card, BadRow), card.error
            deadlines = Deadlines(setup=600, close=close_seconds)
            async with host.open(card, seed=0, deadlines=deadlines, state=state) as episode:
                assert isinstance(episode, HostedEpisode)
                yield Player(episode)

        yield opened


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """Ends the processes in which answers are checked, when a module is through."""
    yield
    close_workers()
    library.close_workers()


@pytest.fixture(params=[*PLACES, terminal, pytest.param(swe, marks=pytest.mark.soak)], ids=lambda make: make.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: None) -> Place:
    """Each shipped environment with one task of its own."""
    if request.param in CONTAINED:
        monkeypatch.setenv("ROLLOUTHUB_IMAGES", request.getfixturevalue("images"))
    return request.param(tmp_path)
