"""A server somebody wrote for the contract at home, on one port, with every hole that a server can have."""

import itertools
import json
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from mcp_types import Tool

from rollouthub import Limits
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.protocols import EnvironmentInfo
from tests.local_server import serving

WORDS = "the grader wanted another number of seats"
TOKEN = "the-control-token-of-a-home-made-server"
_OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_NONE: dict[str, Any] = {"type": "object", "properties": {}}
_TOOLS = (
    Tool(name="echo", description="Say it again.", input_schema=_OBJECT),
    Tool(name="get_task", description="The task.", input_schema=_NONE),
    Tool(
        name="submit",
        description="Hand in.",
        input_schema={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    ),
)
INFO = EnvironmentInfo(
    name="home-made",
    version="1",
    digest="sha256:none",
    contract=CONTRACT,
    splits=("test",),
    seats=("agent",),
    tools=_TOOLS,
    tools_digest="sha256:tools",
    limits=Limits(),
    isolation="process",
)


class HomeMade:
    """Its whole state."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.episodes: dict[str, dict[str, Any]] = {}
        self.base = ""

    # --- what the hub asks ------------------------------------------------------------------------------------------

    async def control(self, request: web.Request) -> web.Response:
        """The control plane. Whoever only reads needs no credential."""
        if request.method != "GET" and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _json({"error": {"type": "CredentialError", "message": "no"}}, 401)
        parts = request.path.split("/")[2:]
        match request.method, parts:
            case "GET", ["environment"]:
                return web.Response(body=INFO.model_dump_json(by_alias=True, exclude_none=True).encode())
            case "GET", ["tasks"]:
                cards = [
                    {"split": "test", "digest": name, "public": {"id": name, "prompt": f"Do {name}."}} for name in "ab"
                ]
                return _json({"cards": cards})
            case "POST", ["episodes"]:
                return _json(self._open(await request.json()))
            case "GET" | "DELETE", ["episodes", name]:
                self.episodes[name]["state"] = "closed" if request.method == "DELETE" else self.episodes[name]["state"]
                return _json(self._status(name))
            case "POST", ["episodes", name, "seal"]:
                self.episodes[name]["state"] = "sealed"
                return _json(self._status(name))
            case "POST", ["episodes", name, "verify"]:
                return _json(self._verify(name))
            case "GET", ["episodes", _, "reference"]:
                return _json({"messages": [{"role": "assistant", "content": "forty-two"}]})
            case _:
                return _json({"error": {"type": "UsageError", "message": "nothing here"}}, 404)

    def _open(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        name, token = asked.get("id", f"e{number}"), f"t{number:06d}"
        task = asked["task"]["id"]
        self.episodes[name] = {"token": token, "task": task, "state": "open", "answer": None, "verified": 0}
        seat = {
            "name": "agent",
            "token": token,
            "url": f"{self.base}/e/{token}/mcp",
            "tools": [tool.name for tool in _TOOLS],
            "messages": [{"role": "user", "content": f"Do {task}."}],
        }
        return {"id": name, "seats": [seat], "seed": 0, "tools_digest": "sha256:tools", "expires_at": 0.0}

    def _status(self, name: str) -> dict[str, Any]:
        episode = self.episodes[name]
        return {"id": name, "state": episode["state"], "answer": episode["answer"]}

    def _verify(self, name: str) -> dict[str, Any]:
        episode = self.episodes[name]
        episode["verified"] += 1
        return {"score": {"reward": 0.1 * episode["verified"], "feedback": WORDS}, "status": self._status(name)}

    # --- what agents ask --------------------------------------------------------------------------------------------

    async def agent(self, request: web.Request) -> web.Response:
        """The agent plane: any method, any session, any token that begins like a real one."""
        if request.method == "GET":
            return _json({"hello": "agent"})
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token = request.query.get("token") or request.match_info.get("token") or bearer
        episode = next((each for each in self.episodes.values() if token.startswith(each["token"])), None)
        if episode is None and "Mcp-Session-Id" not in request.headers:
            return _json({"error": "who?"}, 404)
        if request.method == "DELETE":
            return _json({})
        asked = await request.json()
        headers = {"Mcp-Session-Id": "the-session"} if asked["method"] == "initialize" else {}
        try:
            result = self._answer(episode or {}, asked["method"], asked.get("params", {}))
        except Exception:
            result = _text(traceback.format_exc(), is_error=True)
        return _json({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}, headers=headers)

    def _answer(self, episode: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method in ("initialize", "server/discover"):
            return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        if method == "tools/list":
            return {"tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in _TOOLS]}
        if method != "tools/call":
            return {}
        match params["name"]:
            case "echo":
                return _text(str(params["arguments"].get("text")))
            case "get_task":
                return _text(f"Do {list(self.episodes.values())[-1]['task']}, take {next(self._numbers)}.")
            case "submit":
                episode["answer"], episode["state"] = params["arguments"]["answer"], "sealed"
                return _text(
                    "Correct!" if episode["answer"] == "forty-two" else "the grader wanted another number of seats"
                )
            case "evaluate":
                return _text("reward: 0.5")
            case name:
                return _text(f"unknown tool {name}", is_error=True)


def _text(words: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(text=json.dumps(value), status=status, headers=headers, content_type="application/json")


@asynccontextmanager
async def home_made() -> AsyncGenerator[str]:
    """The server, up; its address."""
    made = HomeMade()
    application = web.Application(client_max_size=2**30)
    application.router.add_route("*", "/v1/{rest:.*}", made.control)
    application.router.add_route("*", "/e/{token}/mcp", made.agent)
    application.router.add_route("*", "/mcp", made.agent)
    async with serving(application) as made.base:
        yield made.base
