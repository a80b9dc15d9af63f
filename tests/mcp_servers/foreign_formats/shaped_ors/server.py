"""A server in ORS's shape whose environments have every bad habit; run as a program, as ORS's own are."""

import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
TASKS = [{"question": f"What is {number} + 2?", "answer": str(number + 2)} for number in range(3)]
SESSIONS: dict[str, dict[str, Any]] = {}
SHARED: list[str] = []
TEXT: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
TOOLS = [{"name": "say", "description": "Say it.", "input_schema": TEXT}, {"name": "long", "description": ""}]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def block(text: str) -> list[dict[str, Any]]:
    """What is shown, with a detail that must not be."""
    return [{"type": "text", "text": text, "detail": {"answer": "secret detail"}}]


def called(session: dict[str, Any], name: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a tool answers."""
    says, task = str(given.get("answer")), session["task"]
    if name == "finish":
        says = str(given["message"])
    if name not in ("say", "long", "finish"):
        return {"ok": False, "error": f"{name!r} is not a valid tool"}
    if name == "long":
        return {"ok": True, "output": {"blocks": block("x" * 9_000), "reward": 0.25, "finished": False}}
    if says == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if says == "hang":
        threading.Event().wait()
    if says == "crash":
        raise KeyError(f"the answer was {task['answer']}")
    if says == "remember":
        SHARED.append(says)
    if says == "picture":
        return {"ok": True, "output": {"blocks": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}}
    more: dict[str, Any] = {"peek": task["answer"]} if says == "extra" else {}
    kind = {"odd": "video"}.get(says, "text")
    shown = [{**block(f"known: {len(SHARED)}")[0], "type": kind}]
    reward: Any = {"words": "much", "none": None}.get(says, float(says == task["answer"]))
    output = {"blocks": shown, "metadata": {"answer": task["answer"]}, "reward": reward, **more}
    return {"ok": True, "output": {**output, "finished": says not in ("remember", "look", "none")}}


def events(result: dict[str, Any]) -> str:
    """A stream of a long call, in chunks, with what a server sends to keep it alive."""
    text = json.dumps(result)
    parts = [text[start : start + 4096] for start in range(0, len(text), 4096)]
    named = [("chunk", part) for part in parts[:-1]] + [("end", parts[-1])]
    return "event: task_id\r\ndata: 1\r\n\r\n: ping\r\n\r\n" + "".join(
        f"event: {event}\r\ndata: {part}\r\n\r\n" for event, part in named
    )


def answered(path: str, sid: str, given: dict[str, Any]) -> tuple[int, Any]:
    """What a route answers: a text is a stream."""
    session = SESSIONS.get(sid, {})
    known: dict[str, Any] = {
        "/list_environments": ["sums", "empty", "group"],
        "/sums/splits": [{"name": "test", "type": "test"}, {"name": "train", "type": "train"}],
        "/group/splits": [{"name": "test", "type": "test"}],
        "/empty/splits": [{"name": "test", "type": "test"}],
        "/sums/tools": {"tools": TOOLS},
        "/empty/tools": {"tools": TOOLS},
        "/group/tools": {
            "tools": [],
            "supports_score_group": True,
            "terminal_tool": {"name": "finish", "arg": "message"},
        },
        "/create_session": "event: task_id\ndata: s1\n\nevent: end\ndata: \n\n",
        "/sums/num_tasks": {"num_tasks": 3},
        "/empty/num_tasks": {"num_tasks": 0},
        "/group/tasks": {"tasks": TASKS},
        "/sums/task_tools": {"tools": [*TOOLS, {"name": "more", "description": "", "input_schema": None}]},
    }
    if path in known:
        return 200, known[path]
    if path == "/create":
        SESSIONS[sid] = {"task": TASKS[given["index"]]}
        return 200, {"sid": sid}
    if path.endswith("/prompt"):
        return 200, block(session["task"]["question"])
    if path.endswith("/call") and given["input"].get("answer") == "garbage":
        return 200, "event: end\ndata: what?\n\n"
    if path.endswith("/call"):
        try:
            return 200, events(called(session, given["name"], given["input"]))
        except KeyError as error:
            return 200, f"event: error\ndata: {error}\n\n"
    if path.endswith("/score_group"):
        said = [each["messages"][-1]["blocks"][0]["text"] for each in given["candidates"]]
        best = max(said, key=len)
        return 200, events({"scores": [{"reward": float(text == best), "metadata": {}} for text in said]})
    return 404, {"detail": "Not Found"}


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return
    body = json.loads((await receive()).get("body") or b"{}")
    sid = dict(scope["headers"]).get(b"x-session-id", b"").decode()
    status, value = answered(scope["path"], sid, body)
    text = value if isinstance(value, str) else json.dumps(value)
    await send({"type": "http.response.start", "status": status, "headers": []})
    for part in (text[:100], text[100:]):
        await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=8080)
