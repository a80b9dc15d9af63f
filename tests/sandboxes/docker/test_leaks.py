"""Nothing of ours is left behind, and nothing of others is touched."""

import hashlib
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from rollouthub.errors import ConfigError, HubError, SandboxError
from rollouthub.sandbox import Resources, SandboxSpec
from rollouthub_sandboxes.docker.container_creation import Maker
from rollouthub_sandboxes.docker.provider import DockerProvider, docker_provider
from rollouthub_sandboxes.docker.sweep import sweep
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import labels, owner_of, this_process

IMAGE = "debian:bookworm-slim"
HOLDER = Path(__file__).with_name("holder.py")


async def containers(engine: Engine, run: str, more: dict[str, list[str]] | None = None) -> list[str]:
    """Names of a run's containers, whatever their state."""
    filters = {"label": [f"rollouthub.run={run}"], **(more or {})}
    found = await engine.call_again(engine.api.containers, all=True, filters=filters)
    return [str(container["Names"][0]).lstrip("/") for container in found]


@asynccontextmanager
async def holder(count: int) -> AsyncGenerator[tuple[anyio.abc.Process, str, list[str]]]:
    """A second hub, its run, and the names of the sandboxes that it holds."""
    async with await anyio.open_process([sys.executable, str(HOLDER), IMAGE, str(count)], stderr=None) as process:
        assert process.stdout is not None
        try:
            line = b""
            with anyio.fail_after(60):
                while not line.endswith(b"\n"):
                    line += await process.stdout.receive()
            run, *names = line.decode().split()
            yield process, run, names
        finally:
            if process.returncode is None:
                process.kill()


async def test_the_containers_of_a_killed_hub_end_by_themselves(engine: Engine) -> None:
    async with holder(4) as (process, run, names):
        assert set(names) <= set(await containers(engine, run))
        process.send_signal(signal.SIGKILL)
        await process.wait()
    with anyio.fail_after(60):
        # What was on its way to the engine as the hub died is still made, and never started: only a sweep ends that.
        while await containers(engine, run):
            if not await containers(engine, run, {"status": ["running"]}):
                await sweep(engine)
            await anyio.sleep(0.05)


async def test_a_sweep_leaves_another_hubs_live_containers_alone(engine: Engine) -> None:
    async with holder(2) as (process, run, names):
        swept = await sweep(engine)
        assert swept.kept >= 2
        assert set(names) <= set(await containers(engine, run))
        async with docker_provider():
            assert set(names) <= set(await containers(engine, run))
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.fail_after(60):
            assert await process.wait() == 0
        assert await containers(engine, run) == []


async def test_a_sweep_removes_what_dead_hubs_left_and_nothing_else(engine: Engine) -> None:
    dead = await anyio.open_process([sys.executable, "-c", "input()"])
    owner = owner_of(dead.pid)
    run, later = f"test-{time.time_ns():x}", time.time() + 3600
    here = this_process()
    marks = {
        "dead": labels(owner, run, later),
        "late": labels(here, run, time.time() - 1),
        "alive": labels(here, run, later),
        "elsewhere": labels(replace(owner, boot="another"), run, later),
        "foreign": {"rollouthub.run": run},
    }
    names = {f"{run}-{kind}": marks[kind] for kind in marks}
    for name, its in names.items():
        await create(engine, name, its)
    try:
        await sweep(engine)
        assert set(await containers(engine, run)) == names.keys() - {f"{run}-late"}
        dead.kill()
        await dead.wait()
        with anyio.fail_after(60):  # a hub of another test may be removing it just then, which takes a moment
            await sweep(engine)
            while f"{run}-dead" in await containers(engine, run):
                await sweep(engine)
                await anyio.sleep(0.05)
        assert set(await containers(engine, run)) == names.keys() - {f"{run}-late", f"{run}-dead"}
    finally:
        for name in await containers(engine, run):
            await engine.call(engine.api.remove_container, name, v=True, force=True)


async def held_network(engine: Engine, name: str, marks: dict[str, str], holder: str) -> dict[str, Any]:
    """A running container in a network; another test's sweep may remove the network before the container starts."""
    api: Any = engine.api
    config = {"Image": IMAGE, "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": name}}
    while True:
        await engine.call(api.create_network, name, labels=marks)
        container = await engine.call(engine.api.create_container_from_config, config, holder)
        try:
            await engine.call(api.start, container["Id"])
            return container
        except EngineError as error:
            await engine.call(engine.api.remove_container, container["Id"], v=True, force=True)
            if error.status != 404:
                raise


async def test_a_sweep_removes_networks_and_images_and_says_which_it_could_not(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.kind == "podman":
        pytest.skip("Podman removes a network together with the containers that are in it")
    api: Any = engine.api  # what a sweep never calls is not in its protocol
    run = f"test-{time.time_ns():x}"
    late = labels(this_process(), run, time.time() - 1)
    await engine.call(api.create_network, f"{run}-free", labels=late)
    container = await held_network(engine, f"{run}-held", late, f"{run}-foreign")
    try:
        image = await engine.call(api.commit, container["Id"], conf={"Labels": late})
        swept = await sweep(engine)
        named = [network["Name"] for network in await engine.call(api.networks) if network["Name"].startswith(run)]
        assert named == [f"{run}-held"], "another sweep may have been first, and none can remove this one"
        (problem,) = [problem for problem in swept.problems if f"{run}-held" in problem]
        assert "has active endpoints" in problem
        assert f"{run}-held" not in swept.networks
        with pytest.raises(EngineError) as gone:
            await engine.call(engine.api.inspect_image, image["Id"])
        assert gone.value.status == 404
        monkeypatch.setattr("rollouthub_sandboxes.docker.sweep.REMOVE_SECONDS", 0.0)
        assert f"{engine.name} did not remove {run}-held within 0 s" in "\n".join((await sweep(engine)).problems)
    finally:
        await engine.call(engine.api.remove_container, container["Id"], v=True, force=True)
        try:
            await engine.call(engine.api.remove_network, f"{run}-held")
        except EngineError as error:
            if error.status != 404:  # another sweep was first, now that no container holds it
                raise


async def create(engine: Engine, name: str, marks: dict[str, str]) -> None:
    """A container that is never started."""
    config = {"Image": IMAGE, "Cmd": ["true"], "Labels": marks, "HostConfig": {"NetworkMode": "none"}}
    await engine.call(engine.api.create_container_from_config, config, name)


async def test_a_container_that_cannot_be_started_is_removed(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    maker = Maker(engine, f"test-{time.time_ns():x}", b"#!/does/not/exist\n", has_quota=False)
    recipe = await provider._recipe(spec)  # pyright: ignore[reportPrivateUsage]  # made as the provider makes it
    with pytest.raises(SandboxError):
        async with maker.make(recipe):
            pass
    assert await containers(engine, maker.run) == []
    await remove_volumes(engine, b"#!/does/not/exist\n")


async def remove_volumes(engine: Engine, payload: bytes) -> None:
    """The volume of a payload that only a test has."""
    name = f"rollouthub-supervisor-{hashlib.sha256(payload).hexdigest()[:16]}-{engine.architecture}"
    await engine.call(engine.api.remove_volume, name)


async def test_a_container_that_cannot_be_created_leaves_nothing(engine: Engine) -> None:
    async with docker_provider() as provider:
        with pytest.raises(ConfigError):
            async with provider.open(SandboxSpec(image=IMAGE, resources=Resources(cpus=4096))):
                pass
        assert await containers(engine, provider.run) == []


async def test_a_cancelled_opening_leaves_nothing(engine: Engine, spec: SandboxSpec) -> None:
    async with docker_provider() as provider:
        for seconds in (0.0, 0.01, 0.05, 0.1, 0.2):
            with anyio.move_on_after(seconds):
                async with provider.open(spec):
                    await anyio.sleep_forever()
        run = provider.run
    assert await containers(engine, run) == []


async def test_anonymous_volumes_go_with_their_container(engine: Engine) -> None:
    made = await engine.call(engine.api.create_container_from_config, {"Image": IMAGE, "Cmd": ["true"]}, None)
    image = (await engine.call(engine.api.commit, made["Id"], changes="VOLUME /data"))["Id"]
    await engine.call(engine.api.remove_container, made["Id"], force=True)
    spec = SandboxSpec(image=image, profile="root-compat", resources=Resources(memory_bytes=64 << 20))
    try:
        async with docker_provider() as provider:
            async with provider.open(spec) as sandbox:
                inspected = await engine.call(engine.api.inspect_container, sandbox.id)
                volumes = [mount["Name"] for mount in inspected["Mounts"] if mount["Destination"] == "/data"]
                assert len(volumes) == 1
                await engine.call(engine.api.inspect_volume, volumes[0])
            run = provider.run
        assert await containers(engine, run) == []
        with pytest.raises(EngineError) as caught:
            await engine.call(engine.api.inspect_volume, volumes[0])
        assert caught.value.status == 404
    finally:
        await engine.call(engine.api.remove_image, image, force=True)


async def test_a_provider_leaves_nothing_when_its_body_fails(engine: Engine, spec: SandboxSpec) -> None:
    run = ""
    with pytest.raises(HubError, match="on purpose"):
        async with docker_provider() as provider:
            run = provider.run
            async with provider.open(spec):
                assert await containers(engine, run)
                raise HubError("on purpose")
    assert run
    assert await containers(engine, run) == []


async def test_a_sandbox_ends_when_its_time_is_over(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    async with provider.open(spec.model_copy(update={"ttl_seconds": 1.0})) as sandbox:
        with anyio.fail_after(20), pytest.raises(SandboxError):
            await sandbox.exec(["sleep", "1000"], timeout_seconds=1000)
        assert not sandbox.is_alive
        name = sandbox.id
    with anyio.fail_after(20):
        while name in await containers(engine, provider.run):  # noqa: ASYNC110  # the engine tells nobody
            await anyio.sleep(0.05)
