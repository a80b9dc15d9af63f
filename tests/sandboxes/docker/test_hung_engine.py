"""An engine that takes calls and does not answer them: waits end, and only what may be done twice is tried again."""

import signal
import time
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import SandboxError
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.docker import container_exit
from rollouthub_sandboxes.docker.container_creation import Maker, Recipe
from rollouthub_sandboxes.docker.container_layout import Image, layout
from rollouthub_sandboxes.docker.provider import docker_provider
from rollouthub_sandboxes.engine import attach_stream
from rollouthub_sandboxes.engine.engine import TRIES, EngineAway, EngineError, NoEngine, connect_engine
from tests.sandboxes.docker.private_engine import PrivateEngine, private_engine
from tests.sandboxes.docker.stub_engine import engine_at, listening

SECONDS = 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.sock"


@pytest.fixture
def private() -> Generator[PrivateEngine]:
    with private_engine() as found:
        yield found


async def test_what_must_not_be_done_twice_is_asked_for_once(path: Path) -> None:
    async with listening(path) as stub, engine_at(path, SECONDS) as engine:
        with (
            anyio.fail_after(10),
            pytest.raises(EngineError, match=r"answer start\(one\) within \d s") as caught,
        ):
            await engine.call(engine.api.start, "one")
        assert not isinstance(caught.value, EngineAway)
        assert (caught.value.status, caught.value.retryable) == (None, True)
        assert stub.asked == {"POST /containers/one/start": 1}


async def test_what_may_be_done_twice_is_asked_for_a_few_times(path: Path) -> None:
    async with listening(path) as stub, engine_at(path, SECONDS) as engine:
        with anyio.fail_after(15), pytest.raises(EngineError, match="did not answer"):
            await engine.call_again(engine.api.inspect_container, "one")
        assert stub.asked == {"GET /containers/one/json": TRIES}


async def test_a_sandbox_that_cannot_be_made_is_a_clear_error_and_removed_by_its_name(path: Path) -> None:
    spec, image = SandboxSpec(image="some:1"), Image("sha256:0", "some:1")
    async with listening(path) as stub, engine_at(path, SECONDS) as engine:
        maker = Maker(engine, "run", None, has_quota=False)
        recipe = Recipe("key", spec, image, layout(spec, image))
        with anyio.fail_after(20), pytest.raises(SandboxError, match="did not answer create_container"):
            async with maker.make(recipe):
                pytest.fail("nothing was made")
        assert stub.asked == {"POST /containers/create": 1, "DELETE /containers/rollouthub-run-1": TRIES}


async def test_a_question_is_given_up_at_once_by_who_is_cancelled(path: Path) -> None:
    async with listening(path), engine_at(path, 5) as engine:
        started = time.monotonic()
        with anyio.move_on_after(0.2):
            await engine.call_again(engine.api.inspect_container, "one")
        assert time.monotonic() - started < 3


async def test_why_a_container_ended_is_not_asked_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_exit, "ASK_SECONDS", 0.3)
    async with listening(path), engine_at(path, 5) as engine:
        with anyio.fail_after(3):
            assert "does not say why" in await container_exit.why_ended(engine, "one", 0)


async def test_streams_are_not_waited_for_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach_stream, "ATTACH_SECONDS", 0.5)
    async with listening(path) as stub, engine_at(path) as engine:
        with anyio.fail_after(5), pytest.raises(EngineError, match="did not answer /containers/one/attach"):
            await attach_stream.attach(engine, "one")
        assert stub.asked == {"POST /containers/one/attach": 1}


async def test_an_engine_that_never_answers_is_none(path: Path) -> None:
    async with listening(path) as stub:
        stub.answered = ()
        with anyio.fail_after(10), pytest.raises(NoEngine, match="no answer within 2 s"):
            async with connect_engine({"DOCKER_HOST": stub.host}):
                pytest.fail("it did not answer")


@pytest.mark.soak
async def test_a_sandbox_outlasts_a_real_engine_that_hangs_but_its_command_does_not(
    private: PrivateEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", private.host)
    spec = SandboxSpec(image="debian:bookworm-slim")
    async with docker_provider() as provider:
        await provider.prepare(spec)
        async with provider.open(spec) as sandbox:
            assert (await sandbox.exec("echo well")).stdout.text == "well\n"
            private.freeze()
            try:
                with anyio.fail_after(60), pytest.raises(SandboxError, match="did not answer"):
                    await sandbox.exec("echo never heard", timeout_seconds=1)
                assert not sandbox.is_alive
            finally:
                private.thaw()
        with anyio.fail_after(60):
            async with provider.open(spec) as sandbox:
                assert (await sandbox.exec("echo well again")).stdout.text == "well again\n"
    assert private.containers() == []
    private.end(signal.SIGTERM)
