"""The agent plane: both eras of MCP at one URL, and nothing for whoever does not hold the token."""

import json

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.hosting.server.agent_plane import MAX_BODY_BYTES, MOST_SESSIONS
from tests.hosting.local.worlds import CANARY, Interview, Market, Workshop, World
from tests.hosting.server.wire_client import ACCEPT, META, MODERN, TOKEN, WireClient, client, said, served

ERAS = ["auto", "legacy"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_finishes_an_episode(era: str) -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        async with client(episode.seats[0].url, era) as agent:
            assert agent.instructions == "Be brief.\n\nSay yes."
            assert said(await agent.call_tool("note", {"text": "hello"})) == '["hello"]'
            assert said(await agent.call_tool("submit", {"answer": "yes"})) == "Submitted."
        verified = await wire.control("POST", f"/v1/episodes/{episode.id}/verify", {"submission": {"answer": "yes"}})
        assert verified.json["score"]["reward"] == 1.0
        assert verified.json["status"]["answer"] == "yes"


@pytest.mark.parametrize("era", ERAS)
async def test_every_kind_of_result_reaches_the_client(era: str) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        async with client(seat.url, era) as agent:
            assert (await agent.call_tool("weather", {"city": "Oslo"})).structured_content == {
                "city": "Oslo",
                "degrees": 21.5,
            }
            refused = await agent.call_tool("refuse", {})
            assert (said(refused), refused.is_error) == ("The drawer is locked.", True)
            crashed = await agent.call_tool("crash", {})
            assert (said(crashed), crashed.is_error) == (BROKEN, True)
            wrong = await agent.call_tool("note", {"words": "x"})
            assert "unknown argument 'words'" in said(wrong)
            assert [block.type for block in (await agent.call_tool("captioned", {})).content] == ["text", "image"]


@pytest.mark.parametrize("era", ERAS)
async def test_after_the_seal_every_call_meets_the_one_fixed_error(era: str) -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        async with client(episode.seats[0].url, era) as agent:
            await agent.call_tool("submit", {"answer": "yes"})
            for name, arguments in (("note", {"text": "late"}), ("submit", {"answer": "no"}), ("nothing", {})):
                result = await agent.call_tool(name, arguments)
                assert (said(result), result.is_error) == (CLOSED, True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_seal_by_the_hub_leaves_clients_the_same_error(era: str) -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        async with client(episode.seats[0].url, era) as agent:
            await agent.call_tool("note", {"text": "in time"})
            assert (await wire.control("POST", f"/v1/episodes/{episode.id}/seal")).json["state"] == "sealed"
            assert said(await agent.call_tool("note", {"text": "late"})) == CLOSED


async def test_a_token_is_unknown_once_its_episode_is_closed() -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        session = await wire.begin(episode.seats[0].url)
        await wire.control("DELETE", f"/v1/episodes/{episode.id}")
        assert (await wire.call(episode.seats[0].url, "note", text="late")).status == 404
        assert (await session.call("note", text="late")).status == 404


async def test_each_seat_sees_its_own_tools_and_task() -> None:
    async with served(Market) as wire:
        buyer, seller = (await wire.open()).seats
        async with client(buyer.url, "auto") as one, client(seller.url, "legacy") as other:
            assert [tool.name for tool in (await one.list_tools()).tools] == ["bid", "look", "get_task", "submit"]
            assert [tool.name for tool in (await other.list_tools()).tools] == ["offer", "look", "get_task", "submit"]
            assert (one.instructions, other.instructions) == ("You are the buyer.", "You are the seller.")
            assert "unknown tool 'offer'" in said(await one.call_tool("offer", {"price": 1}))
            await one.call_tool("bid", {"price": 7})
            assert "7" in said(await other.call_tool("look", {}))


async def test_a_user_is_met_as_a_tool() -> None:
    async with served(Interview) as wire:
        seat = await wire.seat()
        assert (await wire.call(seat.url, "reply", text="because")).text == "Why?"


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_and_resources_are_there_and_empty_where_a_task_has_no_attachments(era: str) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        async with client(seat.url, era) as agent:
            # Clients that see resources offer their model tools to read them with.
            assert agent.server_capabilities.prompts is not None
            assert agent.server_capabilities.resources is None
            assert (await agent.list_prompts()).prompts == []
            assert (await agent.list_resources()).resources == []
            assert (await agent.list_resource_templates()).resource_templates == []
            with pytest.raises(MCPError, match="no prompt 'task'"):
                await agent.get_prompt("task")
            with pytest.raises(MCPError) as refusal:
                await agent.read_resource("file:///etc/passwd")
            assert refusal.value.error.code == (-32602 if era == "auto" else -32002)
            assert refusal.value.error.data == {"uri": "file:///etc/passwd"}


async def test_white_space_around_a_header_is_no_part_of_it() -> None:
    async with served(Workshop) as wire:
        port = int(wire.agent_url.rpartition(":")[2])
        path = (await wire.seat()).url.removeprefix(wire.agent_url)
        params = {"name": "note", "arguments": {"text": "x"}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = [
            f"POST {path} HTTP/1.1",
            f"Host:  127.0.0.1:{port} \t",
            "Accept: application/json",
            "Content-Type: application/json ",
            f"MCP-Protocol-Version: {MODERN}\t",
            "Mcp-Method:   tools/call  ",
            "Mcp-Name:\tnote  ",
            "Connection: close",
            f"Content-Length: {len(body)}",
        ]
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send("\r\n".join([*head, "", ""]).encode() + body)
            assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")


async def test_legacy_clients_may_ping() -> None:
    async with served(Workshop) as wire:
        session = await wire.begin((await wire.seat()).url)
        assert (await session.ask("ping")).json["result"] == {}


async def test_an_unknown_method_is_refused_as_the_specification_says() -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        answer = await wire.modern(seat.url, "episodes/verify")
        assert (answer.status, answer.json["error"]["code"]) == (404, -32601)
        session = await wire.begin(seat.url)
        assert (await session.ask("episodes/verify")).json["error"]["code"] == -32601


async def test_the_token_may_come_as_a_bearer() -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        bearer = {"Authorization": f"Bearer {seat.token}"}
        url = f"{wire.agent_url}/mcp"
        params = {"name": "note", "arguments": {"text": "hello"}}
        assert (await wire.modern(url, "tools/call", params, bearer)).text == '["hello"]'
        session = await wire.begin(url, bearer)
        assert (await session.call("note", text="again")).text == '["hello","again"]'


@pytest.mark.parametrize(
    "path", ["/e/{0}x/mcp", "/e//mcp", "/e/{0}/mcp/", "/e/{0}", "/mcp", "/", "/e/%00/mcp", "/v1/environment"]
)
async def test_without_the_token_there_is_nothing(path: str) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        answer = await wire.modern(wire.agent_url + path.format(seat.token), "tools/list")
        assert (answer.status, "result" in answer.json) == (404, False)


async def test_no_control_credential_opens_the_agent_plane() -> None:
    async with served(Workshop) as wire:
        await wire.open()
        credential = {"Authorization": f"Bearer {TOKEN}"}
        for url in (f"{wire.agent_url}/mcp", f"{wire.agent_url}/e/{TOKEN}/mcp"):
            assert (await wire.modern(url, "tools/list", headers=credential)).status == 404
        assert (await wire.send("GET", f"{wire.agent_url}/v1/environment", headers=credential)).status == 404


async def test_a_session_of_one_token_is_unknown_at_anothers_url() -> None:
    async with served(Market) as wire:
        buyer, seller = (await wire.open()).seats
        stranger = (await wire.open()).seats[0]
        session = await wire.begin(buyer.url)
        for other in (seller, stranger):
            session.url = other.url
            assert (await session.call("look")).status == 404
            assert (await session.end()).status == 404
        session.url = buyer.url
        assert (await session.call("look")).status == 200


async def test_there_is_no_stream_to_get() -> None:
    async with served(Workshop) as wire:
        answer = await wire.send("GET", (await wire.seat()).url, headers={"Accept": "text/event-stream"})
        assert (answer.status, answer.headers["allow"]) == (405, "POST, DELETE")


async def test_an_oversize_body_is_refused() -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        text = "x" * MAX_BODY_BYTES
        assert (await wire.call(seat.url, "note", text=text)).status == 413
        assert (await wire.call(seat.url, "note", text="small")).text == '["small"]'


async def test_an_oversize_body_of_unknown_length_is_refused() -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()

        async def endless():
            for _ in range(MAX_BODY_BYTES // 65536 + 2):
                yield b"x" * 65536

        headers = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}
        async with wire.http.post(seat.url, data=endless(), headers=headers) as response:
            assert response.status == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "x@127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Host": "localhost:1234"}, 200),
    ],
)
async def test_foreign_hosts_and_origins_are_refused(headers: dict[str, str], status: int) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        params = {"name": "note", "arguments": {"text": "x"}}
        assert (await wire.modern(seat.url, "tools/call", params, headers)).status == status


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"[" * 40_000, 400),
        (b"[" * 100_000, 413),
        (b"0," * 100_000, 413),
        (b'{"jsonrpc":"2.0","id":1}', 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', 400),
        (b'\xff\xfe{"jsonrpc"', 400),
    ],
)
@pytest.mark.parametrize("headers", [{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, {}])
async def test_garbage_is_refused_and_harms_nobody(body: bytes, status: int, headers: dict[str, str]) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        assert (await wire.send("POST", seat.url, body, ACCEPT | headers)).status == status
        assert (await wire.call(seat.url, "note", text="fine")).status == 200


async def test_headers_must_say_what_the_body_says() -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        params = {"name": "note", "arguments": {"text": "x"}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
        assert (await wire.send("POST", seat.url, body, headers)).status == 400


async def test_many_sessions_of_one_seat_end_the_oldest() -> None:
    async with served(Workshop) as wire:
        url = (await wire.seat()).url
        sessions = [await wire.begin(url) for _ in range(MOST_SESSIONS + 1)]
        assert (await sessions[0].call("note", text="x")).status == 404
        assert (await sessions[1].call("note", text="x")).status == 200
        assert (await sessions[-1].call("note", text="x")).status == 200


async def test_endless_headers_are_cut_off() -> None:
    async with served(World) as wire:
        port = int(wire.agent_url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                while True:
                    await stream.send(b"x-more: " + b"y" * 8000 + b"\r\n")


async def _answers_of(wire: WireClient, url: str) -> bytes:
    session = await wire.begin(url)
    answers = [
        await wire.modern(url, "server/discover"),
        await wire.modern(url, "tools/list"),
        await session.ask("tools/list"),
        await wire.call(url, "crash"),
        await wire.call(url, "submit", answer="no"),
        await wire.call(url, "submit", answer="yes"),
        await session.call("get_task"),
    ]
    return b"".join(answer.body + repr(answer.headers).encode() for answer in answers) + repr(session.greeting).encode()


async def test_nothing_secret_is_in_any_answer() -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        before = await _answers_of(wire, episode.seats[0].url)
        verified = await wire.control("POST", f"/v1/episodes/{episode.id}/verify")
        assert CANARY in verified.body.decode(), "the verifier has something to hide"
        after = b"".join([(await wire.call(episode.seats[0].url, name)).body for name in ("note", "get_task")])
        for word in (CANARY, TOKEN, "reward", "score", "verif", episode.id, episode.seats[0].token):
            assert word.encode() not in before + after
