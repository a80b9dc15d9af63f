"""An environment in OpenEnv's shape whose guesses have every bad habit; the variable SHAPE chooses how it is spoken to.

`ws`: actions over `/ws`. `mcp`: the same with tools. `http`: `/reset` and `/step` of its own, one world for all.
"""

import json
import os
import random
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
SHAPE = os.environ.get("SHAPE", "ws")
SHARED: list[str] = []
"""What one episode leaves for the next in the same process."""
HERE = Path.cwd()
"""Where it was imported: what it writes there is found again."""
TOOLS: list[Any] = [
    {"name": "guess", "description": "Guess.", "input_schema": {"type": "object", "properties": {"say": {}}}},
    {"name": "verify", "description": "Tell how it stands.", "input_schema": {"type": "object", "properties": {}}},
]


class Guess:
    """Guess a number from 0 to 9, in three tries."""

    number = -1

    def reset(self, seed: int | None = None, low: int = 0) -> dict[str, Any]:
        """Begin."""
        self.number, self.tries = random.Random(seed).randint(low, 9), 0
        return self.seen("Guess.", 0.0)

    def seen(self, text: str, reward: Any, done: bool = False, **more: Any) -> dict[str, Any]:
        """What is seen, with all that must not be."""
        telling = {
            "correct_answer": self.number,
            "episode_score": reward,
            "answerKey": self.number,
            "target": self.number,
        }
        known = {"text": text, "known": len(SHARED) + len(list(HERE.glob("kept-*"))), "drawn": random.random()}
        inner = {"deep": [{"correct_answer": self.number, "fine": 1}], "reward": reward}
        metadata = {"metadata": {"answer": self.number}, "reward": reward, "done": done} if SHAPE == "http" else {}
        return {
            "observation": {**known, **telling, "inner": inner, **metadata, **more},
            "reward": reward,
            "done": done,
        }

    def step(self, say: str) -> dict[str, Any]:
        """Guess, or show a bad habit."""
        if say == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if say == "hang":
            threading.Event().wait()
        if say == "crash":
            raise KeyError(f"the number was {self.number}")
        if say == "remember":
            SHARED.append(say)
            (HERE / f"kept-{self.number}").touch()
        if say == "extra":
            return self.seen("?", 0.0, peek=self.number)
        if say in ("words", "none", "end"):
            return self.seen("?", {"words": "much"}.get(say), say == "end")
        if say == "file":
            return self.seen(Path("words.txt").read_text(), 0.0)
        self.tries += 1
        right = say == str(self.number)
        return self.seen("Yes." if right else "No.", 1.0 if right else -0.25, right or self.tries == 3)


def answer(world: Guess, message: dict[str, Any]) -> dict[str, Any]:
    """What a message of `/ws` is answered with."""
    data = message.get("data", {})
    if message["type"] == "reset":
        return {"type": "observation", "data": world.reset(**data)}
    if message["type"] == "state":
        return {"type": "state", "data": {"number": world.number}}
    if message["type"] != "step":
        return {"type": "error", "data": {"message": "unknown", "code": "UNKNOWN_TYPE"}}
    try:
        if data.get("type") == "list_tools":
            return {"type": "observation", "data": {"observation": {"tools": TOOLS}, "reward": None, "done": False}}
        if data.get("type") == "call_tool":
            return {"type": "observation", "data": called(world, data)}
        if "say" not in data:
            errors = [{"loc": ["say"], "msg": "Field required"}]
            return {"type": "error", "data": {"message": "Invalid", "code": "VALIDATION_ERROR", "errors": errors}}
        return {"type": "observation", "data": world.step(str(data["say"]))}
    except KeyError as error:
        return {"type": "error", "data": {"message": str(error), "code": "EXECUTION_ERROR"}}


def called(world: Guess, data: dict[str, Any]) -> dict[str, Any]:
    """A tool's call."""
    if data["tool_name"] != "guess":
        fault = {"error_type": "tool_not_found", "message": "there is no such tool"}
        return {
            "observation": {"tool_name": data["tool_name"], "result": None, "error": fault},
            "reward": None,
            "done": False,
        }
    came = world.step(str(data["arguments"].get("say")))
    text = json.dumps({"text": came["observation"]["text"], "correct_answer": world.number, "reward": came["reward"]})
    result = {"content": [{"type": "text", "text": text}], "is_error": False}
    return {
        "observation": {"tool_name": "guess", "result": result, "error": None},
        "reward": came["reward"],
        "done": came["done"],
    }


class Served:
    """The application: what OpenEnv's `create_app` makes, as far as an importer looks at it."""

    def __init__(self) -> None:
        self._env_factory = Guess
        self.world = Guess()

        def endpoint() -> Any:
            return self._env_factory

        endpoint.__module__ = "openenv.core.env_server.http_server" if SHAPE != "http" else __name__
        paths = ("/reset", "/step", "/schema") if SHAPE == "http" else ("/ws", "/reset", "/step", "/schema")
        self.routes = [SimpleNamespace(path=path, endpoint=endpoint) for path in paths]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
        elif scope["type"] == "websocket":
            await self.serve_ws(receive, send)
        else:
            await self.serve_http(scope["path"], receive, send)

    async def serve_ws(self, receive: Receive, send: Send) -> None:
        """One connection, one world."""
        world = Guess()
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            asked = json.loads(message["text"])
            garbage = asked.get("data", {}).get("say") == "garbage"
            if asked.get("data", {}).get("say") == "close":
                return
            text = "{no json" if garbage else json.dumps(answer(world, asked))
            await send({"type": "websocket.send", "text": text})

    async def serve_http(self, path: str, receive: Receive, send: Send) -> None:
        """A world for all, and the schemas."""
        body = (await receive()).get("body") or b"{}"
        given: dict[str, Any] = json.loads(body)
        if path == "/schema":
            kind = {"mcp": {"type": {"const": "call_tool"}}}.get(SHAPE, {"say": {"type": "string"}, "metadata": {}})
            fields: dict[str, Any] = {name: {} for name in ("text", "known", "drawn", "inner", "correct_answer")}
            value: Any = {"action": {"properties": kind, "required": ["say"]}, "observation": {"properties": fields}}
        elif path == "/reset":
            value = self.world.reset(**given)
        else:
            value = self.world.step(str(given["action"]["say"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})


app = Served()
