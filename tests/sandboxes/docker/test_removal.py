"""The end of a container: quick whatever runs in it, waited for by nobody, and final."""

import time

import anyio
import pytest

from rollouthub.errors import SandboxError
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine, EngineError

DEAF = "trap '' TERM INT HUP; echo deaf; while :; do sleep 1000; done"
STOP_GRACE_SECONDS = 10.0
"""What an engine gives a container that heeds no signal, and what nobody should have to wait for."""


async def gone(engine: Engine, name: str) -> None:
    """Wait until the engine has no container of a name."""
    while True:
        try:
            await engine.call(engine.api.inspect_container, name)
        except EngineError as error:
            if error.status == 404 or "no such container" in str(error):  # Podman's words, under a status of its own
                return
            raise


async def test_leaving_waits_for_nothing_and_the_container_is_soon_gone(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    async with provider.open(spec) as sandbox, sandbox.start(DEAF) as program:
        assert await anext(aiter(program.output())) == ("stdout", b"deaf\n")
        name = sandbox.id
        # Left as an episode leaves it that is cut short: with its commands still running.
        background = await sandbox.exec(f"({DEAF}) >/dev/null 2>&1 & echo $!")
        assert background.survivors >= 1
    started = time.monotonic()
    with anyio.fail_after(STOP_GRACE_SECONDS):
        await gone(engine, name)
    assert time.monotonic() - started < STOP_GRACE_SECONDS


async def test_an_engine_that_stops_waits_for_no_sandbox(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    async with provider.open(spec) as sandbox, sandbox.start(DEAF) as program:
        assert await anext(aiter(program.output())) == ("stdout", b"deaf\n")
        given = await engine.call(engine.api.inspect_container, sandbox.id)
        assert given["Config"]["StopSignal"] in ("SIGKILL", "9", 9)


async def test_a_container_is_never_handed_out_twice(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    names: list[str] = []
    for _ in range(6):
        async with provider.open(spec) as sandbox:
            listing = await sandbox.exec("ls -A . /tmp; touch mine /tmp/mine; sleep 1000 >/dev/null 2>&1 &")
            assert "mine" not in listing.stdout.text
            names.append(sandbox.id)
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.exec("echo still mine")
    assert len(set(names)) == 6
    with anyio.fail_after(60):
        for name in names:
            await gone(engine, name)
