"""One suite for every provider: the same tests behind each kind of walls that this machine has."""

import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager

import pytest

from rollouthub.errors import HubError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.plugins.entry_points import SANDBOXES, plugins
from rollouthub.sandbox import Resources, Sandbox, SandboxProvider, SandboxSpec
from rollouthub_sandboxes.process import process_provider
from tests.sandboxes.podman import PODMAN

OTHERS = tuple(name for name in plugins(SANDBOXES) if name not in ("docker", "process"))
"""Providers of installed distributions."""
LIMITS = pytest.param("limits", marks=pytest.mark.soak) if shutil.which("bwrap") else "limits"
"""Played by default on machines without bubblewrap, where processes have no other walls."""
KINDS = ("namespaces", LIMITS, "docker", PODMAN, *OTHERS)
SPEC = SandboxSpec(resources=Resources(memory_bytes=512 << 20, pids=400, disk_bytes=128 << 20))


def open_kind(kind: str) -> AbstractAsyncContextManager[SandboxProvider]:
    """A provider of this kind."""
    if kind == "namespaces" or kind == "limits":
        return process_provider((kind,))
    if kind in OTHERS:
        return open_provider(kind)
    return open_provider("docker")  # Podman is an engine of that provider


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the tests of a file, so that they share a provider."""
    return "asyncio"


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Generator[str]:
    """Which provider, and behind which walls."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "podman":
            patch.setenv("DOCKER_HOST", request.getfixturevalue("podman"))
        yield request.param


@pytest.fixture(scope="module")
async def provider(kind: str) -> AsyncGenerator[SandboxProvider]:
    """The provider, proven to work; skipped aloud where this machine has no such walls."""
    opening = open_kind(kind)
    try:
        found = await opening.__aenter__()
    except HubError as error:
        pytest.skip(f"{kind}: {error}")
    try:
        try:
            await found.prepare(SPEC)
        except HubError as error:
            pytest.skip(f"{kind}: {error}")
        yield found
    finally:
        await opening.__aexit__(None, None, None)


@pytest.fixture
async def sandbox(provider: SandboxProvider) -> AsyncGenerator[Sandbox]:
    """A fresh sandbox."""
    async with provider.open(SPEC) as found:
        yield found
