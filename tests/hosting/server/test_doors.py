"""The way into a served episode's sandbox: told on the control plane when it is asked for, and nowhere else."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio

from rollouthub import Environment, Public, SandboxedConfig, SandboxSpec, Score, Secret, Submission, Task, tool
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import CountedSandboxes
from rollouthub.hosting.local.shell_access import OfferedShells
from rollouthub.hosting.server.serve import Service, serving_host
from rollouthub.sandbox import Container, Sandbox, Snapshot
from rollouthub_sandboxes.process import process_provider
from rollouthub_sandboxes.process.provider import ProcessProvider
from tests.hosting.server.wire_client import TOKEN, WireClient

BOX = "rollouthub-canary-7"


class Yard(Environment[SandboxedConfig]):
    """A shell."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="Go."), Secret())

    @classmethod
    def specs(cls, config: Any) -> Sequence[SandboxSpec]:
        return (SandboxSpec(),)

    def sandbox_spec(self) -> SandboxSpec:
        return SandboxSpec()

    @tool
    async def shell(self, command: str) -> str:
        """Run a command."""
        return (await self.sandbox.exec(command)).stdout.text

    @tool
    async def crash(self) -> str:
        """Break."""
        raise RuntimeError(self.sandbox.id)

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=1.0)


class Box:
    """A sandbox that says it is a container."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> object:
        return getattr(self._sandbox, name)

    @property
    def id(self) -> str:
        return BOX

    def way_in(self) -> Container:
        return Container(engine="docker", name=BOX)


class Boxes:
    """A provider of those."""

    name = "docker"

    def __init__(self, provider: ProcessProvider) -> None:
        self._provider = provider

    async def prepare(self, spec: SandboxSpec) -> None:
        await self._provider.prepare(spec)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        async with self._provider.open(spec, snapshot=snapshot) as sandbox:
            yield Box(sandbox)  # pyright: ignore[reportReturnType]  # the rest is the sandbox's


@asynccontextmanager
async def served() -> AsyncGenerator[WireClient]:
    """The yard, served."""
    service = Service(environment="yard", control_token=TOKEN, ttl_seconds=60.0, control="127.0.0.1:0")
    with anyio.fail_after(20):
        async with process_provider() as provider:
            host = InProcessHost("yard", Yard, SandboxedConfig(), sandboxes=CountedSandboxes(Boxes(provider)))
            async with serving_host(host, service) as serving, aiohttp.ClientSession() as http:
                yield WireClient(serving, http)


async def test_the_container_is_named_to_who_asks_for_doors_until_the_seal() -> None:
    async with served() as wire:
        opened = await wire.open()
        path = f"/v1/episodes/{opened.id}/doors"
        (door,) = OfferedShells.model_validate_json((await wire.control("GET", path)).body).doors
        assert door.container == Container(engine="docker", name=BOX)
        await wire.control("POST", f"/v1/episodes/{opened.id}/seal")
        sealed = OfferedShells.model_validate_json((await wire.control("GET", path)).body)
        assert (sealed.doors, "being scored" in (sealed.why_none or "")) == ((), True)


async def test_no_other_answer_of_either_plane_names_it() -> None:
    async with served() as wire:
        opened = await wire.open()
        url = opened.seats[0].url
        answers = [
            await wire.modern(url, "server/discover"),
            await wire.modern(url, "tools/list"),
            await wire.modern(url, "prompts/list"),
            await wire.modern(url, "resources/list"),
            await wire.call(url, "get_task"),
            await wire.call(url, "shell", command="hostname; env; cat /proc/self/cgroup"),
            await wire.control("GET", "/v1/environment"),
            await wire.control("GET", "/v1/tasks?split=test&seed=0"),
            await wire.control("GET", f"/v1/episodes/{opened.id}"),
            await wire.call(url, "crash"),
        ]
        told = b"".join(answer.body + repr(answer.headers).encode() for answer in answers)
        assert b"command" in told
        assert BOX.encode() not in told + opened.model_dump_json().encode()
