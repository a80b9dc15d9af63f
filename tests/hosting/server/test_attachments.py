"""A task's pictures, sounds and files as MCP resources, for its own seat's clients and no other seat's."""

import base64
import os

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents

from rollouthub import Outcome
from rollouthub.hosting import InProcessHost
from rollouthub.messages import picture
from rollouthub.protocols import SeatAddress
from tests.engine.attached_world import ANSWER, PAPER, SOUND, Attached, AttachedConfig
from tests.engine.picture_world import png
from tests.gateway.outside import harness
from tests.hosting.server.processes import HUB
from tests.hosting.server.wire_client import client, served

TYPES = ["image/png", "audio/wav", "application/pdf"]


def blob(contents: object) -> bytes:
    assert isinstance(contents, BlobResourceContents)
    return base64.b64decode(contents.blob)


async def read_all(agent: Client) -> None:
    """List and read what the first task shows."""
    assert agent.server_capabilities.resources is not None
    assert "shows 4 of pictures, sounds or files" in (agent.instructions or "")
    assert "resources that are listed are the same" in (agent.instructions or "")
    resources = (await agent.list_resources()).resources
    assert [each.mime_type for each in resources] == TYPES
    assert [each.size for each in resources] == [len(png(0)), len(SOUND), len(PAPER)]
    read = [(await agent.read_resource(each.uri)).contents for each in resources]
    assert [blob(contents) for (contents,) in read] == [png(0), SOUND, PAPER]
    assert [contents.mime_type for (contents,) in read] == TYPES
    task = await agent.call_tool("get_task", {})
    assert [block.type for block in task.content] == ["text", "image", "audio", "resource", "image"]
    assert task.content[3].model_dump()["resource"]["uri"] == resources[2].uri


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_client_lists_and_reads_what_its_task_shows(era: str) -> None:
    async with served(Attached) as place:
        seat = await place.seat()
        async with client(seat.url, era) as agent:
            await read_all(agent)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_stdio_client_does_so_too(era: str) -> None:
    async with served(Attached) as place:
        environment = {**os.environ, "ROLLOUTHUB_AGENT_URL": (await place.seat()).url}
        command = StdioServerParameters(command=HUB[0], args=[*HUB[1:], "serve", "stdio"], env=environment)
        async with Client(command, mode="legacy" if era == "legacy" else "auto") as agent:
            await read_all(agent)


async def test_so_does_a_client_of_the_gateway() -> None:
    async def play(address: SeatAddress) -> None:
        async with Client(address.agent_url) as agent:
            await read_all(agent)

    async with harness(host=InProcessHost("attached", Attached, AttachedConfig())) as made:
        rollout = await made.play(play)
    assert rollout.outcome is Outcome.SCORED, rollout.faults


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_nothing_else_is_read_by_any_name(era: str) -> None:
    async with served(Attached) as place:
        first = await place.seat()
        answer = await place.control("POST", "/v1/episodes", {"task": {"id": "two", "split": "test"}})
        second = answer.json["seats"][0]["url"]
        async with client(first.url, era) as one, client(second, era) as other:
            own, theirs = (await one.list_resources()).resources, (await other.list_resources()).resources
            assert own[0].uri != theirs[0].uri
            digest = own[0].uri.removeprefix("media:")
            names = [
                "file:///etc/passwd",
                "/etc/passwd",
                "../../etc/passwd",
                f"media:{picture(ANSWER).digest[7:]}",
                "x",
            ]
            names += [
                f"media:../{digest}",
                f"media:{digest}/../{digest}",
                f"media:{digest.upper()}",
                f"media:{digest}%00",
            ]
            names += [f"media:sha256:{digest}", "media:", f"media://{digest}", "media:" + "0" * 64, "m" * 5000]
            for name in [theirs[0].uri, *names]:
                with pytest.raises(MCPError, match="Resource not found"):
                    await one.read_resource(name)
            # What both tasks show is each one's own.
            assert own[1:] == theirs[1:]
            assert (await one.list_resource_templates()).resource_templates == []


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_once_the_episode_is_sealed_there_are_none(era: str) -> None:
    async with served(Attached) as place:
        seat = await place.seat()
        async with client(seat.url, era) as agent:
            (first, *_) = (await agent.list_resources()).resources
            await agent.call_tool("submit", {"answer": "x"})
            with pytest.raises(MCPError, match="Resource not found"):
                await agent.read_resource(first.uri)
