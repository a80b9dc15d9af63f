"""Requests for a tool call, byte by byte: those that are plain, and those that are not."""

import json
from collections.abc import Mapping
from typing import Any

from rollouthub.hosting.server.agent_plane import MAX_BODY_BYTES
from tests.hosting.server.wire_client import META, MODERN

PREFIX = "io.modelcontextprotocol/"
WORD = "ä"
"""The SDK escapes it, which tells who answered."""


class Asked:
    """A request, as it comes from the wire; a plain call but for what is changed."""

    def __init__(self, headers: Mapping[str, str | None] | None = None, **params: Any) -> None:
        call = {"name": "note", "arguments": {"text": WORD}, "_meta": META, **params}
        self.body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}).encode()
        self.headers: dict[str, str | None] = {
            "host": "127.0.0.1:80",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": str(call["name"]),
            **(headers or {}),
        }

    def whose(self, **keys: object) -> "Asked":
        """With these keys of the envelope; those that are `...` left out."""
        whole = {**json.loads(self.body), **keys}
        return self.saying(json.dumps({key: value for key, value in whole.items() if value is not ...}).encode())

    def saying(self, body: bytes) -> "Asked":
        """With another body."""
        self.body = body
        return self

    def put(self, old: str, new: str) -> "Asked":
        """With something of the body replaced."""
        assert old.encode() in self.body
        return self.saying(self.body.replace(old.encode(), new.encode("utf-8", "surrogatepass")))


def more_meta(**keys: Any) -> dict[str, Any]:
    """The `_meta` of a plain call, with more."""
    return {**META, **{key if "/" in key else PREFIX + key: value for key, value in keys.items()}}


PLAIN = {
    "as most send it": Asked(),
    "id of words": Asked().whose(id="ä-1"),
    "id below zero": Asked().whose(id=-(2**60)),
    "long id": Asked().whose(id=10**30),
    "escaped words": Asked().put('"note"', '"n\\u006fte"'),
    "raw words": Asked().put("\\u00e4", WORD),
    "white space": Asked().put(":", " :\n\t"),
    "the same key twice": Asked().put('"text":', '"text": 1, "text":'),
    "the same part twice": Asked().put('"id": 7', '"id": 7, "id": 8'),
    "a long number": Asked(arguments={"text": WORD, "often": 10**30}),
    "wrong arguments": Asked(arguments={WORD: 1}),
    "an unknown tool": Asked(name=WORD),
    "a name in base64": Asked({"mcp-name": "=?base64?w6Q=?="}, name=WORD),
    "who it is": Asked(_meta=more_meta(clientInfo={"name": "a", "version": "1"})),
    "nobody": Asked(_meta=more_meta(clientInfo=None)),
    "what it can": Asked(_meta=more_meta(clientCapabilities={"roots": {}, "elicitation": {"form": {}}, "new": 1})),
    "another port": Asked({"host": "localhost:8123"}),
    "no port": Asked({"host": "localhost"}),
    "JSON alone": Asked({"accept": "APPLICATION/json;q=0.9"}),
    "a character set": Asked({"content-type": "Application/JSON; charset=utf-8"}),
    "a large argument": Asked(arguments={"text": WORD + "x" * 2**20}),
    "a deep argument": Asked().put('"text"', '"\u00e4": ' + "[" * 200 + "]" * 200 + ', "text"'),
}
"""What is answered without the SDK; each says the word in its answer."""
OTHERS = {
    "a batch": Asked().saying(b"[" + Asked().body + b"]"),
    "a notification": Asked().whose(id=...),
    "an answer": Asked().saying(b'{"jsonrpc": "2.0", "id": 7, "result": {}}'),
    "no JSON": Asked().saying(b"{"),
    "nothing": Asked().saying(b""),
    "null": Asked().saying(b"null"),
    "id null": Asked().whose(id=None),
    "id true": Asked().whose(id=True),
    "id 1.0": Asked().whose(id=1.0),
    "half a character in an id": Asked().put('"id": 7', '"id": "\\ud800"'),
    "another JSON-RPC": Asked().whose(jsonrpc="1.0"),
    "another method": Asked().whose(method="tools/list"),
    "a method of both": Asked({"mcp-method": "tools/list"}).whose(method="tools/list"),
    "more in the envelope": Asked().whose(more=1),
    "params of another kind": Asked().whose(params=[1]),
    "no params": Asked().whose(params=...),
    "more params": Asked(more=1),
    "a task": Asked(task={"ttl": 5}),
    "answers to no question": Asked(inputResponses=7),
    "state of another kind": Asked(requestState=7),
    "arguments of another kind": Asked(arguments=[WORD]),
    "half a character": Asked(arguments={"text": "\ud800"}),
    "half a character, raw": Asked().put("\\u00e4", "\ud800"),
    "NaN": Asked(arguments={"text": WORD, "often": float("nan")}),
    "beyond all numbers": Asked().put('\\u00e4"', '\\u00e4", "often": 1e999'),
    "a number of 5000 digits": Asked().put('\\u00e4"', '\\u00e4", "often": 1' + "0" * 5000),
    "too deep": Asked().put('\\u00e4"', '\\u00e4", "often": ' + "[" * 40_000 + "]" * 40_000),
    "UTF-16": Asked().saying(Asked().body.decode().encode("utf-16")),
    "a byte order mark": Asked().saying(b"\xef\xbb\xbf" + Asked().body),
    "no UTF-8": Asked().saying(Asked().body.replace(b"\\u00e4", b"\xff")),
    "no name": Asked().put('"name": "note", ', ""),
    "a name that is a number": Asked(name=7),
    "an empty name": Asked({"mcp-name": None}, name=""),
    "no meta": Asked(_meta=None),
    "meta of another kind": Asked(_meta=[META]),
    "no version": Asked(_meta={PREFIX + "clientCapabilities": {}}),
    "no capabilities": Asked(_meta={PREFIX + "protocolVersion": MODERN}),
    "another version inside": Asked(_meta=more_meta(protocolVersion="2099-01-01")),
    "another version outside": Asked({"mcp-protocol-version": "2099-01-01"}),
    "another version": Asked({"mcp-protocol-version": "2099-01-01"}, _meta=more_meta(protocolVersion="2099-01-01")),
    "capabilities of another kind": Asked(_meta=more_meta(clientCapabilities={"roots": 7})),
    "somebody without a version": Asked(_meta=more_meta(clientInfo={"name": "a"})),
    "no UTF-8 in who it is": Asked(_meta=more_meta(clientInfo={"name": "#", "version": "1"})).put("#", "\ud800"),
    "a wish for logs": Asked(_meta=more_meta(logLevel="debug")),
    "no such logs": Asked(_meta=more_meta(logLevel="loud")),
    "a wish for progress": Asked({"accept": "application/json"}, _meta={**META, "progressToken": 1}),
    "a trace": Asked(_meta=more_meta(**{"example.org/trace": "1"})),
    "much about itself": Asked(_meta=more_meta(clientInfo={"name": "a" * 5000, "version": "1"})),
    "no name outside": Asked({"mcp-name": None}),
    "another name outside": Asked({"mcp-name": "show"}),
    "a broken name outside": Asked({"mcp-name": "=?base64?*?="}),
    "no method outside": Asked({"mcp-method": None}),
    "another method outside": Asked({"mcp-method": "tools/list"}),
    "no version outside": Asked({"mcp-protocol-version": None}),
    "the era before": Asked({"mcp-protocol-version": "2025-11-25"}),
    "a session": Asked({"mcp-session-id": "1"}),
    "events alone": Asked({"accept": "text/event-stream"}),
    "nothing accepted": Asked({"accept": None}),
    "anything accepted": Asked({"accept": "*/*"}),
    "JSON of another kind": Asked({"accept": "application/json-patch"}),
    "plain text": Asked({"content-type": "text/plain"}),
    "no type": Asked({"content-type": None}),
    "another host": Asked({"host": "example.org"}),
    "the host in capitals": Asked({"host": "LOCALHOST:80"}),
    "a longer host": Asked({"host": "localhost.example.org:80"}),
    "its own origin": Asked({"origin": "http://localhost:80"}),
    "another origin": Asked({"origin": "http://example.org"}),
    "no length": Asked({"content-length": None}),
    "no such length": Asked({"content-length": "+5"}),
    "too long": Asked({"content-length": str(MAX_BODY_BYTES + 1)}),
    "longer than it says": Asked({"content-length": "9"}).saying(b" " * (MAX_BODY_BYTES + 1)),
}
"""What the SDK answers, or refuses."""
