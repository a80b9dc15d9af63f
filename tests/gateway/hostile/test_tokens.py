"""Tokens that are not one's own, headers that lie, floods and races: nothing is reached, and the server stays up."""

import json
from collections.abc import Callable

import anyio
import pytest

from rollouthub.protocols import SeatAddress
from tests.gateway.hostile.stronghold import Answer, Stronghold, besieged

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
ADD = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}'
ASK = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
FORGED: dict[str, Callable[[SeatAddress], str]] = {
    "none": lambda seat: "",
    "cut": lambda seat: seat.api_key[:-1],
    "longer": lambda seat: seat.api_key + "x",
    "upper case": lambda seat: seat.api_key.upper(),
    "backwards": lambda seat: seat.api_key[::-1],
    "escaped": lambda seat: seat.api_key + "%20",
    "half": lambda seat: seat.api_key[:16],
    "twice": lambda seat: seat.api_key * 2,
    "a wildcard": lambda seat: "*",
    "null": lambda seat: "null",
    "undefined": lambda seat: "undefined",
    "a number": lambda seat: "0",
    "SQL": lambda seat: "'%20OR%20'1'='1",
    "a template": lambda seat: "${token}",
    "dots": lambda seat: "..",
    "a bearer": lambda seat: "Bearer%20" + seat.api_key,
    "a zero byte": lambda seat: seat.api_key + "%00",
    "not ASCII": lambda seat: "ÿþ",
    "very long": lambda seat: "A" * 20_000,
    "base64": lambda seat: "eyJhbGciOiJub25lIn0.e30.",
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("place", ["path", "bearer", "model API path", "model API key", "x-api-key"])
async def test_a_forged_token_opens_nothing(hold: Stronghold, name: str, place: str) -> None:
    token = FORGED[name](hold.mine)
    match place:
        case "path":
            request = hold.post(f"/e/{token}/mcp", LIST)
        case "bearer":
            request = hold.post("/mcp", LIST, Authorization=f"Bearer {token}")
        case "model API path":
            request = hold.post(f"/llm/{token}/v1/chat/completions", ASK)
        case "model API key":
            request = hold.post("/llm/v1/chat/completions", ASK, Authorization=f"Bearer {token}")
        case _:
            request = hold.post("/llm/v1/messages", ASK, x_api_key=token)
    answer = await hold.send(request)
    hold.assert_kept(answer, allows=(0, 400, 401, 404))
    await hold.assert_untouched()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp?token={}", {}),
        ("/mcp?api_key={}", {}),
        ("/mcp", {"Cookie": "token={}"}),
        ("/mcp", {"X-Episode": "{}"}),
        ("/mcp", {"Mcp-Session-Id": "{}"}),
        ("/mcp", {"Authorization": "Basic {}"}),
        ("/mcp", {"x-api-key": "{}"}),
        ("/mcp", {"Proxy-Authorization": "Bearer {}"}),
        ("/llm/v1/chat/completions?key={}", {}),
        ("/llm/v1/chat/completions", {"Cookie": "key={}"}),
    ],
)
async def test_a_token_in_another_place_than_its_own_opens_nothing(
    hold: Stronghold, path: str, headers: dict[str, str]
) -> None:
    key = hold.mine.api_key
    given = {name.replace("-", "_"): value.format(key) for name, value in headers.items()}
    answer = await hold.send(hold.post(path.format(key), LIST, **given))
    hold.assert_kept(answer, allows=(401, 404))


async def test_the_token_of_an_episode_that_is_over_opens_nothing_any_more(hold: Stronghold) -> None:
    token = hold.over.api_key
    answer = await hold.send(hold.rpc("tools/call", token=token, name="add", arguments={}))
    assert b"The episode is closed." in answer.body
    for request in (hold.rpc("tools/list", token=token), hold.post(f"/llm/{token}/v1/chat/completions", ASK)):
        assert (await hold.send(request)).status in (401, 404)


HEADERS = [
    {"Host": "evil.example"},
    {"Host": "evil.example:80"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "user@127.0.0.1"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "https://127.0.0.1.evil.example"},
    {"Origin": "file://"},
    {"Origin": "null"},
    {"Host": "169.254.169.254"},
]


@pytest.mark.parametrize("plane", ["agent", "model"])
@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: "-".join(*headers.items()) or "none")
async def test_a_rebound_name_or_a_foreign_page_is_refused(
    hold: Stronghold, plane: str, headers: dict[str, str]
) -> None:
    path = f"/e/{hold.mine.api_key}/mcp" if plane == "agent" else f"/llm/{hold.mine.api_key}/v1/chat/completions"
    answer = await hold.send(hold.post(path, LIST if plane == "agent" else ASK, **headers))
    hold.assert_kept(answer, allows=(400, 403, 421))


SMUGGLED = {
    "two lengths": b"Content-Length: 4\r\nContent-Length: 46\r\n",
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "chunks in disguise": b"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n",
    "a negative length": b"Content-Length: -1\r\n",
    "a length in hex": b"Content-Length: 0x2e\r\n",
    "an endless length": b"Content-Length: 99999999999999999999\r\n",
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: 0\r\n",
    "a bare newline": b"X-A: b\nContent-Length: 0\r\n",
    "a header of 100 kB": b"X-A: " + b"a" * 100_000 + b"\r\nContent-Length: 0\r\n",
    "a thousand headers": b"".join(b"X-%d: y\r\n" % number for number in range(2000)) + b"Content-Length: 0\r\n",
    "a name with a space": b"X A: b\r\nContent-Length: 0\r\n",
    "a zero byte": b"X-A: b\x00c\r\nContent-Length: 0\r\n",
    "an upgrade": b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n",
    "compressed": b"Content-Encoding: gzip\r\nContent-Length: 3\r\n",
    "expects": b"Expect: 200-ok\r\nContent-Length: 0\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_a_request_that_two_servers_would_read_differently_carries_nothing_in(
    hold: Stronghold, name: str
) -> None:
    other = hold.post(f"/e/{hold.others.api_key[:-1]}/mcp", ADD)
    head = f"POST /e/{hold.mine.api_key}x/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    answer = await hold.send(head + SMUGGLED[name] + b"\r\n" + b"0\r\n\r\n" + other, ends=True)
    hold.assert_kept(answer, allows=(0, 400, 404, 405, 413, 417, 431))
    assert b'"isError":false' not in answer.raw
    await hold.assert_untouched()


@pytest.mark.parametrize(
    "line", [b"GET", b"GET / HTTP/9.9", b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0", b"\r\n\r\n\r\n", b"\x00" * 64]
)
async def test_what_is_no_http_at_all_is_shown_the_door(hold: Stronghold, line: bytes) -> None:
    answer = await hold.send(line + b"\r\n\r\n", ends=True)
    hold.assert_kept(answer, allows=(0, 400, 404, 405))
    await hold.assert_untouched()


@pytest.mark.parametrize(("plane", "size"), [("agent", 5 << 20), ("model", 33 << 20)])
@pytest.mark.parametrize("told", [True, False], ids=["declared", "in chunks"])
async def test_a_body_over_its_bound_is_cut_off(hold: Stronghold, plane: str, size: int, *, told: bool) -> None:
    path = f"/e/{hold.mine.api_key}/mcp" if plane == "agent" else f"/llm/{hold.mine.api_key}/v1/chat/completions"
    if told:
        answer = await hold.send(hold.post(path, b"", Content_Length=str(size)))
    else:
        head = hold.post(path, b"", Content_Length="0").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        piece = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
        answer = await hold.send(head + piece * ((size >> 20) + 1))
    hold.assert_kept(answer, allows=(0, 400, 413))
    await hold.assert_untouched()


async def test_clients_that_hold_lines_open_do_not_keep_others_out(hold: Stronghold) -> None:
    slow = [b"POST /e/x/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"P", hold.post("/mcp", b"", Content_Length="1000")]
    streams = [await anyio.connect_tcp("127.0.0.1", hold.port) for _ in range(60)]
    try:
        for number, stream in enumerate(streams):
            await stream.send(slow[number % 3])
        with anyio.fail_after(5):
            await hold.assert_untouched()
            assert b'"tools"' in (await hold.send(hold.rpc("tools/list"))).body
    finally:
        for stream in streams:
            await stream.aclose()


async def test_a_session_of_one_episode_is_no_key_to_another(hold: Stronghold) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}).encode()
    accepts = {"Accept": "application/json, text/event-stream"}
    begun = await hold.send(hold.post(f"/e/{hold.others.api_key}/mcp", body, **accepts))
    session = begun.raw.lower().split(b"mcp-session-id: ")[1].split(b"\r\n")[0].decode()
    headers = {**accepts, "Mcp_Session_Id": session, "MCP_Protocol_Version": "2025-11-25"}
    taken = await hold.send(hold.post(f"/e/{hold.mine.api_key}/mcp", ADD, **headers))
    hold.assert_kept(taken, allows=(404,))
    ended = await hold.send(hold.post(f"/e/{hold.mine.api_key}/mcp", b"", **headers).replace(b"POST", b"DELETE", 1))
    hold.assert_kept(ended, allows=(404,))
    still = await hold.send(hold.post(f"/e/{hold.others.api_key}/mcp", LIST, **headers))
    assert still.status == 200


async def test_of_many_answers_handed_in_at_once_one_counts() -> None:
    async with besieged() as hold:
        answers: list[Answer] = []

        async def submit() -> None:
            answers.append(await hold.send(hold.rpc("tools/call", name="submit", arguments={"answer": "x"})))

        async with anyio.create_task_group() as tasks:
            for _ in range(24):
                tasks.start_soon(submit)
            for _ in range(8):
                tasks.start_soon(hold.send, hold.rpc("tools/call", name="add", arguments={}))
        assert sum(b"Submitted." in answer.body for answer in answers) == 1
        for answer in answers:
            hold.assert_kept(answer, allows=(200,))


async def test_a_thousand_requests_for_tokens_that_do_not_exist_leave_nothing_behind(hold: Stronghold) -> None:
    gateway = hold.harness.gateway
    before = gateway.exposed_seats

    async def knock(number: int) -> None:
        for turn in range(100):
            url = f"{gateway.base_url}/e/{number}-{turn}/mcp"
            async with hold.harness.http.post(url, data=LIST) as response:
                assert response.status == 404

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(knock, number)
    assert gateway.exposed_seats == before
