"""An episode's sandbox: opened before it, dead to the agent at the seal, on the record, and a fault when it breaks."""

import logging
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from rollouthub import (
    Deadlines,
    Environment,
    Public,
    SandboxedConfig,
    SandboxError,
    SandboxSpec,
    Score,
    Secret,
    Submission,
    Task,
    tool,
)
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.hosting.local.episode_sandboxes import CountedSandboxes, open_provider
from rollouthub.hosting.local.hosted_episode import CLOSED, HostedEpisode
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import FoundEnvironment
from rollouthub.sandbox import Build, Sandbox
from rollouthub.task import BadRow

LIVES = "kill -0 $(cat pid) && echo alive || echo dead"


async def folder_of(sandbox: Sandbox) -> str:
    """Where its commands start; without namespaces every sandbox has the machine's `/tmp`."""
    return (await sandbox.exec("pwd")).stdout.text.strip()


class Yard(Environment[SandboxedConfig]):
    """A shell, and a verifier that looks at what the shell left."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="Go."), Secret())

    @classmethod
    def specs(cls, config: Any) -> Sequence[SandboxSpec]:
        return (SandboxSpec(),)

    def sandbox_spec(self) -> SandboxSpec:
        return SandboxSpec()

    async def setup(self) -> None:
        await self.sandbox.write_file(f"{await folder_of(self.sandbox)}/ready", b"yes")

    @tool
    async def shell(self, command: str) -> str:
        """Run a command."""
        return (await self.sandbox.exec(command)).stdout.text

    async def verify(self, submission: Submission) -> Score:
        seen = (await self.sandbox.exec(LIVES)).stdout.text.strip()
        async with self.open_sandbox(SandboxSpec()) as fresh:
            found = [entry.path for entry in await fresh.list_files(await folder_of(fresh))]
        return Score(reward=float(seen == "dead" and not found), feedback=f"{seen} {found}")


@asynccontextmanager
async def opened(environment: type[Environment[Any]] = Yard) -> AsyncGenerator[HostedEpisode]:
    """An episode in a sandbox of processes."""
    with anyio.fail_after(60):
        async with open_in_process("yard", environment, SandboxedConfig(sandbox="process")) as host:
            card = await anext(aiter(host.tasks("test", 0)))
            assert not isinstance(card, BadRow)
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                assert isinstance(episode, HostedEpisode)
                yield episode


async def say(episode: HostedEpisode, command: str) -> str:
    """What the shell prints."""
    result = await episode.seats["agent"].call_tool("shell", {"command": command})
    return "".join(getattr(block, "text", "") for block in result.content)


def break_sandboxes() -> None:
    """End whatever sandboxes run in."""
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended as another one did
            if "supervisor" in process.name():
                process.kill()


async def test_tools_share_a_sandbox_that_setup_has_filled() -> None:
    async with opened() as episode:
        assert await say(episode, "cat ready; echo mine > mine") == "yes"
        assert await say(episode, "cat mine") == "mine\n"


async def test_nothing_the_agent_started_lives_when_it_is_verified() -> None:
    async with opened() as episode:
        await say(episode, "setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid")
        assert await say(episode, LIVES) == "alive\n"
        score = await episode.conclude(Submission())
        assert score is not None
        assert score.reward == 1.0, score.feedback
        assert await say(episode, "echo still here") == CLOSED


async def test_what_was_in_force_is_noted_once() -> None:
    async with opened() as episode:
        await say(episode, "echo $$ > pid")
        await episode.conclude(Submission())
        assert {ref.provider for ref in episode.sandboxes} == {"process"}
        ref = episode.sandboxes[0]
        assert ref.walls in ("namespaces", "limits")
        assert any("kernel" in limitation for limitation in ref.limitations)


async def test_a_sandbox_that_dies_ends_the_episode_as_a_sandbox_fault() -> None:
    async with opened() as episode:
        assert await say(episode, "echo well") == "well\n"
        break_sandboxes()
        assert await say(episode, "echo well") == CLOSED
        assert episode.is_sealed
        assert await episode.conclude(Submission()) is None
        assert {fault.boundary for fault in episode.faults} == {"sandbox"}


async def test_a_refused_spec_is_a_fault_of_its_task_alone() -> None:
    class Walled(Yard):
        def sandbox_spec(self) -> SandboxSpec:
            return SandboxSpec(network="bridge")

    with pytest.raises(Exception, match=r"task 'one' has no sandbox.*bridge") as caught:
        async with opened(Walled):
            raise AssertionError
    assert getattr(caught.value, "retryable", None) is False


async def test_a_configuration_without_sandboxes_gives_none() -> None:
    class Plain(Yard):
        async def setup(self) -> None:
            """Nothing to fill."""

        def sandbox_spec(self) -> SandboxSpec | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return None

    async with opened(Plain) as episode:
        with pytest.raises(RuntimeError, match="sandbox_spec"):
            assert episode.environment.sandbox
        episode.environment.sandboxes = None
        with pytest.raises(SandboxError, match="SandboxedConfig"):
            episode.environment.open_sandbox(SandboxSpec())


async def test_an_unknown_provider_is_met_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'doker'; did you mean 'docker'"):
        async with open_provider("doker"):
            raise AssertionError


async def test_auto_takes_processes_where_no_engine_answers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with caplog.at_level(logging.WARNING):
        async with open_provider("auto") as provider:
            assert provider.name == "process"
    assert "nobody.sock" in caplog.text
    with pytest.raises(ConfigError, match=r"nobody\.sock"):
        async with open_provider("docker"):
            raise AssertionError


async def test_a_sandbox_that_dies_under_the_verifier_is_no_fault_of_the_verifiers() -> None:
    class Deadly(Yard):
        async def verify(self, submission: Submission) -> Score:
            async with self.sandbox.start("echo up; sleep 1000") as program:
                await anext(aiter(program.output()))
                break_sandboxes()
                await program.wait()
            raise AssertionError

    async with opened(Deadly) as episode:
        for _ in range(2):
            with pytest.raises(SandboxError, match="the sandbox is gone"):
                await episode.conclude(Submission())


@pytest.mark.parametrize(
    ("given", "is_strangers", "reached"),
    [({}, False, "bridge"), ({}, True, "none"), ({"build_network": "bridge"}, True, "bridge")],
)
async def test_images_of_what_was_installed_are_built_without_a_network(
    given: dict[str, str], is_strangers: bool, reached: str
) -> None:
    found = FoundEnvironment("yard", Yard, {"build_network": "bridge"}, "", is_trusted=False)
    config = configured(found, given, is_strangers=is_strangers)
    assert isinstance(config, SandboxedConfig)
    asked: list[SandboxSpec] = []

    class Noting:
        name = "noting"

        async def prepare(self, spec: SandboxSpec) -> None:
            asked.append(spec)

        def open(self, spec: SandboxSpec, *, snapshot: Any = None) -> Any:
            asked.append(spec)
            return nullcontext()

    provider = CountedSandboxes(Noting(), config.build_network)
    await provider.prepare(SandboxSpec(image=Build(context=Path("/nowhere"))))
    assert [image.network for spec in asked if isinstance(image := spec.image, Build)] == [reached]
