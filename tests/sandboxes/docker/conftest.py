"""A real engine for the tests of the docker provider; skipped aloud where none answers."""

from collections.abc import AsyncGenerator, Generator

import pytest

from rollouthub.errors import HubError
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider, docker_provider
from rollouthub_sandboxes.engine.engine import Engine, connect_engine
from tests.sandboxes.podman import IMAGE, PODMAN

SMALL = Resources(memory_bytes=128 << 20, pids=64, disk_bytes=32 << 20)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the tests of a file, so that they share an engine."""
    return "asyncio"


@pytest.fixture(scope="module", params=["docker", PODMAN])
def engine_kind(request: pytest.FixtureRequest) -> Generator[str]:
    """Which engine answers, in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "podman":
            patch.setenv("DOCKER_HOST", request.getfixturevalue("podman"))
        yield request.param


@pytest.fixture(scope="module")
async def engine(engine_kind: str) -> AsyncGenerator[Engine]:
    """The engine that answers, with the base image."""
    connecting = connect_engine()
    try:
        found = await connecting.__aenter__()
    except HubError as error:
        pytest.skip(str(error))
    try:
        try:
            await found.call_again(found.api.inspect_image, IMAGE)
        except HubError as error:
            pytest.skip(str(error))
        assert found.kind == engine_kind
        yield found
    finally:
        await connecting.__aexit__(None, None, None)


@pytest.fixture(scope="module")
async def provider(engine: Engine) -> AsyncGenerator[DockerProvider]:
    """A provider of that engine."""
    opening = docker_provider()
    try:
        yield await opening.__aenter__()
    finally:
        await opening.__aexit__(None, None, None)


@pytest.fixture
def spec() -> SandboxSpec:
    """A small hardened sandbox."""
    return SandboxSpec(image=IMAGE, resources=SMALL)


@pytest.fixture
async def sandbox(provider: DockerProvider, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
    """A fresh one of those."""
    async with provider.open(spec) as found:
        yield found
