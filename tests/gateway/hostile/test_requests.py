"""Requests that are not what the two planes take: each is refused as itself, and nothing else happens."""

import json
from typing import Any

import pytest

from tests.gateway.hostile.stronghold import CANARY, Stronghold

PLANES = {"agent": "/e/{mine}/mcp", "model": "/llm/{mine}/v1/chat/completions"}
VERBS = ["GET", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "BREW", "post", "CONNECT", "X" * 200]
PATHS = [
    "/",
    "/v1/environment",
    "/v1/environments",
    "/v1/episodes",
    "/v1/tasks",
    "/v1/tasks/one/reference",
    "/v1/verify",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/admin",
    "/.env",
    "/proc/self/environ",
    "/mcp",
    "/e",
    "/e/",
    "/e//mcp",
    "/e/{mine}",
    "/e/{mine}/",
    "/e/{mine}/mcp/",
    "/e/{mine}/verify",
    "/e/{mine}/seal",
    "/e/{mine}/reference",
    "/e/{mine}/state",
    "/e/{mine}/events",
    "/e/{mine}/v1/verify",
    "/e/{mine}/mcp/../../v1/episodes",
    "/e/../e/{others}x/mcp",
    "/e/%2e%2e/mcp",
    "/e/{mine}%00/mcp",
    "/e/{mine}%2f..%2f/mcp",
    "/E/{mine}/MCP",
    "//e/{mine}/mcp",
    "/e/{mine}\\mcp",
    "/e/{mine};/mcp",
    "/llm",
    "/llm/",
    "/llm/{mine}",
    "/llm/{mine}/v1",
    "/llm/{mine}/v1/episodes",
    "/llm/{mine}/v1/files",
    "/llm/{mine}/v1/embeddings",
    "/llm/{mine}/v1/chat/completions/../../../e",
    "/llm/{mine}/v2/chat/completions",
    "/llm/v1/chat/completions",
    "/practice/vault/mcp",
    "http://127.0.0.1/e/{mine}x/mcp",
]
BODIES: list[bytes] = [
    b"",
    b"{",
    b"}",
    b"null",
    b"true",
    b"17",
    b'"text"',
    b"[]",
    b"[[]]",
    b"{}",
    b'{"a":}',
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\x00',
    b"\x80\x81\x82",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"messages":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":'
    + b"[" * 3_000
    + b"]" * 3_000
    + b"}}",
    b'{"jsonrpc":"2.0","id":1e999,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":[1],"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}',
    b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    b'{"id":1,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"add"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["add"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":[]}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"x":1}}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]',
    b'{"model":"m","messages":{}}',
    b'{"model":"m","messages":[]}',
    b'{"model":"m","messages":[1]}',
    b'{"model":"m","messages":[{"role":"user"}]}',
    b'{"model":"m","messages":[{"role":"root","content":"x"}]}',
    b'{"model":"m","messages":[{"role":"tool","content":"x"}]}',
    b'{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/"}}]}]}',
    b'{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}',
    b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":50}',
    b'{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1}',
    b'{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":"many"}',
    b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":"all"}',
    b'{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}],"tools":7}',
]
METHODS = [
    "verify",
    "seal",
    "tools/verify",
    "episodes/verify",
    "tasks/list",
    "tasks/get",
    "tasks/reference",
    "resources/read",
    "resources/subscribe",
    "prompts/get",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "completion/complete",
    "logging/setLevel",
    "rpc.discover",
    "__init__",
    "",
    "x" * 10_000,
    "tools/call\r\nX: y",
]
NAMES = [
    "verify",
    "Verify",
    "_verify",
    "__verify__",
    "setup",
    "close",
    "reference",
    "snapshot",
    "restore",
    "reward",
    "grade",
    "evaluate",
    "score",
    "reset",
    "step",
    "state",
    "tasks",
    "_hud_submit",
    "__class__",
    "add.__globals__",
    "../verify",
    "add\x00",
    "",
    "ADD",
    "x" * 5_000,
]


def filled(path: str, hold: Stronghold) -> str:
    """A path with the tokens it names."""
    return path.replace("{mine}", hold.mine.api_key).replace("{others}", hold.others.api_key)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_that_no_plane_takes_is_refused(hold: Stronghold, plane: str, verb: str) -> None:
    request = hold.post(filled(PLANES[plane], hold), b"{}").replace(b"POST", verb.encode(), 1)
    answer = await hold.send(request)
    hold.assert_kept(answer, allows=(0, 400, 404, 405))
    await hold.assert_untouched()


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_path_that_leads_nowhere_leads_nowhere(hold: Stronghold, path: str, verb: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    answer = await hold.send(hold.post(filled(path, hold), body).replace(b"POST", verb.encode(), 1))
    hold.assert_kept(answer, allows=(0, 400, 401, 404, 405))
    await hold.assert_untouched()


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("number", range(len(BODIES)))
async def test_a_body_that_is_no_request_is_refused_in_words(hold: Stronghold, plane: str, number: int) -> None:
    answer = await hold.send(hold.post(filled(PLANES[plane], hold), BODIES[number]))
    hold.assert_kept(answer, allows=(200, 202, 400, 404, 413))
    if answer.status == 200 and plane == "agent":
        told = json.loads(answer.body)
        assert "error" in told or told["result"].get("isError") is True
    elif plane == "model":
        assert answer.status != 200, answer.raw[:300]
        assert json.loads(answer.body)["error"]["message"]
    await hold.assert_untouched()


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_that_mcp_clients_of_a_seat_have_no_use_for_is_unknown(hold: Stronghold, method: str) -> None:
    if "\r" in method:
        answer = await hold.send(hold.rpc("tools/call").replace(b"Mcp-Method: tools/call", method.encode()))
    else:
        answer = await hold.send(hold.rpc(method))
    hold.assert_kept(answer)
    assert answer.status in (0, 400, 404) or b'"error"' in answer.body
    await hold.assert_untouched()


@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_that_is_not_listed_is_not_there(hold: Stronghold, name: str) -> None:
    if name == "add\x00":
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
        answer = await hold.send(hold.post(f"/e/{hold.mine.api_key}/mcp", json.dumps(body).encode()))
    else:
        answer = await hold.send(hold.rpc("tools/call", name=name, arguments={}))
    hold.assert_kept(answer)
    assert answer.status in (0, 400, 404) or b'"error"' in answer.body or b'"isError":true' in answer.body
    await hold.assert_untouched()


async def test_what_fails_inside_is_told_in_one_fixed_sentence(hold: Stronghold) -> None:
    answer = await hold.send(hold.rpc("tools/call", name="fail", arguments={}))
    hold.assert_kept(answer, allows=(200,))
    assert b"fault in the environment" in answer.body
    assert CANARY.encode() not in answer.raw
