"""Who may enter which sandbox of an episode, and what of that may cross a wire."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from rollouthub import BadRow, Deadlines, SandboxSpec, Score, Submission, tool
from rollouthub.hosting.client.remote_episode import RemoteEpisode
from rollouthub.hosting.client.remote_media import RemoteMedia
from rollouthub.hosting.local.shell_access import EnterableEpisode, OfferedShells, ShellAccess, WayIn, WaysIn, ways_into
from rollouthub.protocols import Episode
from rollouthub.sandbox import Container
from tests.hosting.client.stub import Stub, stub_server
from tests.hosting.local.test_episode_sandbox import Yard, break_sandboxes, opened, say

BOX = Container(engine="docker", name="rollouthub-1a2b-3")


class Busy(Yard):
    """Opens a sandbox for each tool call, and another to verify in; notes what could be entered meanwhile."""

    seen: WaysIn | None = None

    @tool
    async def apart(self) -> str:
        """Run something in a sandbox of its own."""
        async with self.open_sandbox(SandboxSpec()) as further:
            return further.id

    async def verify(self, submission: Submission) -> Score:
        async with self.open_sandbox(SandboxSpec()):
            assert self.looker is not None
            type(self).seen = await self.looker.ways_in()
        return Score(reward=1.0)

    looker: EnterableEpisode | None = None


async def test_only_the_agents_own_sandbox_can_be_entered_and_only_while_it_acts() -> None:
    async with opened(Busy) as episode:
        assert isinstance(episode, EnterableEpisode)
        (way,) = (await episode.ways_in()).ways
        assert way.label.startswith("process, ")
        await episode.seats["agent"].call_tool("apart", {})
        assert (await episode.ways_in()).ways == (way,)
        assert isinstance(episode.environment, Busy)
        episode.environment.looker = episode
        await episode.conclude(Submission())
        assert Busy.seen is not None
        assert Busy.seen.ways == ()
        assert "being scored" in (Busy.seen.why_not or "")
        episode.environment.looker = None


async def test_a_broken_sandbox_has_no_door() -> None:
    async with opened() as episode:
        break_sandboxes()
        await say(episode, "true")
        assert (await episode.ways_in()).ways == ()


async def test_an_environment_says_whether_it_has_no_sandbox_or_keeps_none() -> None:
    class Brief(Yard):
        async def setup(self) -> None:
            """Nothing to fill."""

        def sandbox_spec(self) -> SandboxSpec | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return None

    async with opened(Brief) as episode:
        assert "keeps no sandbox" in ((await episode.ways_in()).why_not or "")
        episode.environment.sandboxes = None
        assert await episode.ways_in() == WaysIn(why_not="this environment has no sandbox")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "--privileged"},
        {"name": "-v"},
        {"name": "a b"},
        {"name": "a;reboot"},
        {"name": "a\n"},
        {"name": ""},
        {"engine": "sh"},
        {"engine": "/tmp/docker"},
        {"user": "--privileged"},
        {"user": "$(reboot)"},
        {"address": "ssh://me@there"},
        {"address": "unix:///sock -v /:/host"},
        {"address": "--config=/tmp"},
        {"command": ["sh"]},
    ],
)
def test_a_container_from_elsewhere_can_be_nothing_but_a_name(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Container.model_validate({"engine": "docker", "name": "box", **wrong})


def test_a_shell_names_the_engine_and_the_user_where_they_are_not_the_usual() -> None:
    assert BOX.shell == ("docker", "exec", "-it", "rollouthub-1a2b-3", "sh")
    far = Container(engine="docker", name="box", address="tcp://10.0.0.7:2375", user="1000:1000")
    assert " ".join(far.shell) == "docker --host tcp://10.0.0.7:2375 exec -it --user 1000:1000 box sh"
    other = Container(engine="podman", name="box", address="unix:///run/podman/podman.sock")
    assert " ".join(other.shell) == "podman --remote --url unix:///run/podman/podman.sock exec -it box sh"


def test_no_command_crosses_a_wire() -> None:
    local = WayIn("process, namespaces", ("sh", "-c", "reboot"))
    told = OfferedShells.of(WaysIn((local,)))
    assert (told.doors, told.why_none) == ((), "its sandbox is not a container")
    mixed = OfferedShells.of(WaysIn((local, WayIn("docker, container", BOX))))
    assert mixed == OfferedShells(doors=(ShellAccess(label="docker, container", container=BOX),))
    assert OfferedShells.model_validate_json(mixed.model_dump_json()).ways_in.ways[0].command == BOX.shell


class Strange:
    """A sandbox of a provider that knows nothing of doors."""

    is_alive = True


async def test_a_provider_that_tells_no_way_in_is_named() -> None:
    async with opened() as episode:
        sandbox: Any = Strange()
        sandbox.ref = episode.environment.sandbox.ref
        assert "'process' tell no way in" in (ways_into(sandbox).why_not or "")


# --- where a server tells them --------------------------------------------------------------------------------------


@asynccontextmanager
async def away(answer: object, status: int = 200) -> AsyncGenerator[Episode]:
    """An episode of a server that says this when it is asked for doors."""

    async def doors(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer, status=status)

    async with stub_server() as server:
        server.misbehave = {"doors": doors}
        card = await _task(server)
        async with server.host().open(card, seed=0, deadlines=Deadlines()) as episode:
            yield episode


async def _task(server: Stub) -> Any:
    async for card in server.host().tasks("test", 0):
        assert not isinstance(card, BadRow)
        return card
    raise AssertionError


async def test_a_servers_containers_are_named_by_the_hub_itself() -> None:
    async with away({"doors": [{"label": "docker, container", "container": {"engine": "docker", "name": "b"}}]}) as it:
        assert isinstance(it, EnterableEpisode)
        assert (await it.ways_in()).ways[0].command == ("docker", "exec", "-it", "b", "sh")
        await it.seal()
        assert (await it.ways_in()).ways == ()


@pytest.mark.parametrize(
    "answer",
    [
        {"doors": [{"label": "x", "command": ["sh", "-c", "reboot"]}]},
        {"doors": [{"label": "x", "container": {"engine": "docker", "name": "--help"}}]},
        {"doors": [{"label": "x" * 10_000, "container": {"engine": "docker", "name": "b"}}]},
        {"doors": [{"label": "x", "container": {"engine": "docker", "name": "b"}}] * 99},
        ["docker"],
    ],
)
async def test_what_a_server_makes_up_opens_nothing(answer: object) -> None:
    async with away(answer) as episode:
        assert isinstance(episode, EnterableEpisode)
        known = await episode.ways_in()
        assert known.ways == ()
        assert "tells no way in" in (known.why_not or "")


async def test_a_server_cannot_lead_a_persons_terminal_to_another_machine() -> None:
    far = {"engine": "docker", "name": "b", "address": "tcp://10.0.0.1:2375"}
    async with away({"doors": [{"label": "docker", "container": far}]}) as episode:
        assert isinstance(episode, EnterableEpisode)
        known = await episode.ways_in()
        assert (known.ways, known.why_not) == ((), "its container's engine is on another machine")


async def test_a_server_that_knows_of_no_doors_has_none() -> None:
    async with away({"error": {"type": "UsageError", "message": "no such route"}}, status=404) as episode:
        assert isinstance(episode, EnterableEpisode)
        assert "no such route" in ((await episode.ways_in()).why_not or "")


async def test_a_server_on_another_machine_is_not_even_asked() -> None:
    async with away({}) as episode, stub_server() as server:
        assert isinstance(episode, RemoteEpisode)
        (connection := await server.connection()).elsewhere = "10.9.8.7"
        far = RemoteEpisode(episode.id, connection, Deadlines(), RemoteMedia())
        assert "10.9.8.7, another machine" in ((await far.ways_in()).why_not or "")
        assert server.seen == []
