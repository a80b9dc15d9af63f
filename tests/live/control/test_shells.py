"""The way into the sandbox of a live rollout: the agent's own, for whoever asks at the door, and for nobody else."""

import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rollouthub.cli.live.machine_lines import shell_line
from rollouthub.errors import HubError
from rollouthub.live.control.live_client import LiveClient
from rollouthub.live.control.live_views import RolloutDetails
from rollouthub_sandboxes.engine.engine import connect_engine
from tests.sandboxes.terminal import type_into

from .conftest import Guest, Watch, Watched, until

YARD = str(Path(__file__).parent / "yard.py")


@asynccontextmanager
async def in_the_yard(watch: Watch, guest: Guest, provider: str, **more: object) -> AsyncGenerator[Watched]:
    """A run of rollouts in sandboxes, once its agents wait."""
    if provider == "docker":
        try:
            async with connect_engine():
                pass
        except HubError as error:
            pytest.skip(str(error))
    settings = {"environments": [YARD], "set": {"sandbox": provider}, "limit": 2, "concurrency": 2, **more}
    async with watch(guest, **settings) as run:
        await until(lambda: guest.waiting == 2)
        yield run


async def shown(client: LiveClient, run: Watched) -> list[RolloutDetails]:
    """Every rollout in flight, with what was said."""
    return [await client.show(rollout_id, content=True) for rollout_id in run.ids()]


@pytest.mark.parametrize("provider", ["process", "docker"])
async def test_a_shell_runs_in_the_sandbox_of_exactly_that_rollout(watch: Watch, provider: str) -> None:
    guest = Guest()
    async with in_the_yard(watch, guest, provider) as run, run.knock() as client:
        rollouts = await shown(client, run)
        assert len(rollouts) == 2
        for rollout in rollouts:
            (shell,) = rollout.shells
            assert rollout.no_shell is None
            assert shell.label.startswith(f"{provider}, ")
            hostname = rollout.turns[0].calls[0].result
            assert hostname
            seen = await anyio.to_thread.run_sync(type_into, shell.command, "echo; hostname; cat whose; echo .; exit\n")
            assert hostname.strip() in seen.splitlines()
            assert f"{rollout.task_id}." in seen.splitlines()
            if provider == "docker":
                assert shell.command[:3] == ("docker", "exec", "-it")
                assert shell_line(rollout).plain.startswith(f"shell: {shlex.join(shell.command)}")
        (view,) = (await client.list()).run.sandboxes
        assert (view.environment, view.provider, view.in_use) == ("yard", provider, 2)
        assert (view.warm is None) is (provider == "process")


@pytest.mark.usefixtures("namespaces")
async def test_who_plays_never_learns_of_the_way_in(watch: Watch) -> None:
    guest = Guest()
    async with in_the_yard(watch, guest, "process") as run, run.knock() as client:
        rollouts = await shown(client, run)
        words = {word for rollout in rollouts for word in rollout.shells[0].command if "uid=" in word}
        assert words
        listing = (await client.list()).model_dump_json()
        assert not any(word in listing for word in words)
        guest.gate.set()
        await run.over.wait()
    records = "".join(kept.model_dump_json() for attempts in run.records().values() for kept in attempts)
    assert not any(word in records for word in words)


async def test_a_world_without_a_sandbox_says_so(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=1) as run, run.knock() as client:
        await until(lambda: guest.waiting)
        (rollout,) = await shown(client, run)
        assert (rollout.shells, rollout.no_shell) == ((), "this environment has no sandbox")
        assert "no shell: this environment has no sandbox" in shell_line(rollout).plain


async def test_the_sandbox_of_the_agents_own_comes_first(watch: Watch, namespaces: None) -> None:
    program = ["sh", "-c", "echo mine > /tmp/whose; sleep 60"]
    settings: dict[str, object] = {"environments": [YARD], "set": {"sandbox": "process"}, "agent": "external"}
    settings["agent_set"] = {"command": program, "sandbox": "process"}
    settings["limit"] = 1
    async with watch(None, **settings) as run, run.knock() as client:
        await until(lambda: any(getattr(attempt, "homes", ()) for attempt in run.live.attempts.values()))
        (rollout,) = await shown(client, run)
        own, environments = rollout.shells
        assert own.label.startswith("the agent's own: process, ")
        assert environments.label.startswith("process, ")
        typed = "while ! test -s /tmp/whose; do sleep 0.01; done; echo; cat /tmp/whose; exit\n"
        assert "mine" in (await anyio.to_thread.run_sync(type_into, own.command, typed)).splitlines()
        await client.cancel(None)
