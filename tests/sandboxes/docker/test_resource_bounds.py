"""Who is to blame where a container does not do as it is told: its programs where they used it up, else nobody."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.supervisor import execution
from rollouthub_sandboxes.supervisor import sandbox as supervised

ROOT = {"profile": "root-compat", "has_writable_root": True, "scratch": ()}
SLEEPERS = "for i in $(seq 56); do sleep 1000 & done; echo full >&2; wait"
FORKS = "fork() { fork | fork & }; fork; sleep 1000"
HOLDS = "exec perl -e '$one = q(x); push @held, $one x (1 << 20) for 1 .. 58; warn; sleep 1000'"
CACHES = "head -c 200000000 /dev/zero > /tmp/much; echo full >&2; sleep 1000"
IDLES = "echo full >&2; sleep 1000"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that an attack makes long are short here."""
    monkeypatch.setattr(execution, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(execution, "KILL_SECONDS", 0.5)
    monkeypatch.setattr(supervised, "STOP_SECONDS", 0.5)


@asynccontextmanager
async def silenced(
    provider: DockerProvider, engine: Engine, spec: SandboxSpec, command: str
) -> AsyncGenerator[Sandbox]:
    """A sandbox in which a command runs, and that answers no more."""
    small = Resources(memory_bytes=64 << 20, pids=64, disk_bytes=1 << 30)
    update = {**ROOT, "resources": small}
    async with (
        provider.open(spec.model_copy(update=update)) as sandbox,
        sandbox.start(["bash", "-c", command]) as program,
    ):
        async for side, _ in program.output():
            if side == "stderr":  # it is said there, or that no more forks can be had
                break
        await engine.call(engine.api.kill, sandbox.id, "STOP")
        yield sandbox


@pytest.mark.parametrize(
    ("command", "what"),
    [
        pytest.param(SLEEPERS, "processes", id="many processes"),
        pytest.param(FORKS, "processes", id="a fork bomb"),
        pytest.param(HOLDS, "memory", id="much memory"),
    ],
)
async def test_who_used_up_a_container_that_does_not_answer_has_ended_it(
    provider: DockerProvider, engine: Engine, spec: SandboxSpec, command: str, what: str
) -> None:
    async with silenced(provider, engine, spec, command) as sandbox:
        with anyio.fail_after(20), pytest.raises(SandboxOverrun, match=f"did not answer .* used up its {what}"):
            await sandbox.exec("true", timeout_seconds=0.5)
        with pytest.raises(SandboxOverrun):
            await sandbox.stop()


@pytest.mark.parametrize("command", [pytest.param(IDLES, id="idle"), pytest.param(CACHES, id="files in the cache")])
async def test_nobody_in_a_container_that_does_not_answer_is_blamed_below_its_bounds(
    provider: DockerProvider, engine: Engine, spec: SandboxSpec, command: str
) -> None:
    async with silenced(provider, engine, spec, command) as sandbox:
        with anyio.fail_after(20), pytest.raises(SandboxError, match="did not answer") as caught:
            await sandbox.exec("true", timeout_seconds=0.5)
        assert not isinstance(caught.value, SandboxOverrun)


async def test_a_stop_that_is_given_up_tells_who_is_to_blame(
    provider: DockerProvider, engine: Engine, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "STOP_SECONDS", 600)
    async with silenced(provider, engine, spec, SLEEPERS) as sandbox:
        with anyio.fail_after(20):
            with anyio.move_on_after(0.5):
                await sandbox.stop()
            with pytest.raises(SandboxOverrun, match=r"not stopped in time.* used up its processes"):
                await sandbox.stop()


async def test_a_given_up_command_that_is_not_seen_dead_tells_who_is_to_blame(
    provider: DockerProvider, engine: Engine, spec: SandboxSpec
) -> None:
    async with silenced(provider, engine, spec, SLEEPERS) as sandbox:
        with anyio.fail_after(20):
            with anyio.move_on_after(0.5):
                await sandbox.exec("true")
            with pytest.raises(SandboxOverrun, match=r"not dead .* used up its processes"):
                await sandbox.exec("true")


async def test_want_of_memory_without_end_is_the_doing_of_what_runs_there(
    provider: DockerProvider, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is paused here: the supervisor itself waits for memory."""
    hungry = "for i in 1 2 3 4; do (while :; do perl -e '$x = \"a\" x (6 << 20); sleep 1' & done) & done; sleep 1000"
    resources = Resources(memory_bytes=64 << 20, pids=128, disk_bytes=1 << 30)
    async with provider.open(spec.model_copy(update={**ROOT, "resources": resources})) as sandbox:
        with anyio.fail_after(60), pytest.raises(SandboxOverrun, match="used up its"):
            while True:
                await sandbox.exec(["bash", "-c", hungry], timeout_seconds=2)
