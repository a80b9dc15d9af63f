"""A resources server in the shape of NeMo Gym's: the same routes, cookies and answers, and every bad habit."""

import asyncio
import json
import os
import secrets
import signal
import socket
import threading
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouthub_servers.foreign.serving import socket_path

COOKIE = "ShapedServer___shaped"
SESSIONS: dict[str, dict[str, Any]] = {}
ASKED: dict[str, int] = {}
NOTES: list[str] = []
"""What a server keeps of every session, at the level of its module."""
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "Asked": {"properties": {"responses_create_params": {}, "response": {}, "answer": {}}},
    "Answered": {"properties": {"responses_create_params": {}, "response": {}, "reward": {}, "extracted": {}}},
}


async def fail(request: Request) -> Response:
    """Fail at everything."""
    return JSONResponse("KeyError('answer')", status_code=500)


async def seed(request: Request) -> Response:
    """Begin a session."""
    name = secrets.token_hex(8)
    row = await request.json()
    SESSIONS[name] = {"row": row, "notes": [], "steps": 0}
    NOTES.append(str(row["answer"]))
    told: dict[str, Any] = {"observation": "Guess.", "info": {}, "neighbours": len(NOTES) - 1}
    if row.get("exposed"):
        told["mcp"] = {"server_name": "shaped", "url_path": "/mcp", "headers": {"X-Token": name}}
    answer = JSONResponse(told)
    answer.set_cookie(COOKIE, name)
    return answer


def session_of(request: Request) -> dict[str, Any]:
    """The caller's own."""
    return SESSIONS[request.cookies[COOKIE]]


async def tool(request: Request) -> Response:
    """Any tool."""
    name = request.path_params["name"]
    ASKED[name] = ASKED.get(name, 0) + 1
    given = await request.json()
    if name == "note":
        session_of(request)["notes"].append(given["text"])
        return JSONResponse({"notes": session_of(request)["notes"], "reward": 1.0, "reward_components": {"a": 1.0}})
    if name == "neighbours":
        return JSONResponse({"answers": NOTES})
    if name == "spin":
        while True:
            pass
    if name == "boom":
        return JSONResponse("ValueError('no such lemma')", status_code=500)
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        await asyncio.Event().wait()
    if name == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
        await asyncio.Event().wait()
    return JSONResponse({"detail": "Not Found"}, status_code=404)


async def verify(request: Request) -> Response:
    """Compare what was said last with the row's answer."""
    ASKED["verify"] = ASKED.get("verify", 0) + 1
    asked = await request.json()
    if "extracted" in asked:
        return JSONResponse("multiple values for keyword argument", status_code=500)
    if (usage := asked["response"].get("usage")) is not None:
        counted = {**usage["input_tokens_details"], **usage["output_tokens_details"]}
        if not {"cached_tokens", "cache_write_tokens", "reasoning_tokens"} <= counted.keys():
            return JSONResponse({"detail": [{"type": "missing", "input": usage}]}, status_code=422)
    texts = [item["content"][0]["text"] for item in asked["response"]["output"] if item["type"] == "message"]
    said = texts[-1] if texts else ""
    if said == "judge":
        return JSONResponse({**asked, "reward": 0.0, "mask_sample": True, "failure_reason": "no judge"})
    if said == "words":
        return JSONResponse({**asked, "reward": "much"})
    while said == "spin":
        pass
    if said == "fail":
        return JSONResponse("KeyError('answer')", status_code=500)
    notes = session_of(request)["notes"]
    return JSONResponse({**asked, "reward": float(said == asked["answer"]) + 0.25 * len(notes), "extracted": said})


async def step(request: Request) -> Response:
    """A guessing game: three steps at most."""
    session, asked = session_of(request), await request.json()
    session["steps"] += 1
    (item,) = asked["response"]["output"]
    said = item["content"][0]["text"] if item["type"] == "message" else item["arguments"]
    won = said == session["row"]["answer"]
    odd: dict[str, Any] = {"missing": None, "words": "much", "nan": float("nan"), "yes": True}
    outputs = [] if item["type"] == "message" else [{"call_id": item["call_id"], "output": "noted"}]
    answer = {
        "observation": "No.",
        "reward": odd.get(said, 1.0 if won else -0.1),
        "terminated": won,
        "truncated": session["steps"] == 3,
        "info": {"tool_outputs": outputs},
    }
    if said == "missing":
        del answer["reward"]
    return Response(json.dumps(answer), media_type="application/json")  # with NaN, as Python writes it


async def mcp(request: Request) -> Response:
    """Its tools over MCP."""
    session, asked = SESSIONS[request.headers["X-Token"]], await request.json()
    tools: list[dict[str, Any]] = [
        {"name": name, "inputSchema": {"type": "object", "properties": {}}} for name in ("whisper", "verify")
    ]
    result: dict[str, Any] = {"tools": tools}
    if asked["method"] == "tools/call":
        text = json.dumps({"heard": asked["params"]["arguments"], "answer_is": session["row"]["question"], "reward": 1})
        result = {"content": [{"type": "text", "text": text}], "isError": asked["params"]["arguments"] == {}}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})


async def openapi(request: Request) -> Response:
    """What the routes take."""
    post = {
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Asked"}}}},
        "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answered"}}}}},
    }
    return JSONResponse({"paths": {"/verify": {"post": post}}, "components": {"schemas": MODELS}})


async def asked_so_far(request: Request) -> Response:
    """How often each route was asked: for tests."""
    return JSONResponse(ASKED)


async def health(request: Request) -> Response:
    """It lives."""
    return JSONResponse({"status": "ok"})


def speak_garbage() -> None:
    """Answer everybody with what is no HTTP."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path())
    listener.listen()
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(1000):
                connection.sendall(b"\x00\x01 what?\r\n\r\n")


if __name__ == "__main__":
    from rollouthub_servers.foreign.serving import arguments
    from rollouthub_servers.nemo_gym.gym_serving import serve_app

    if arguments() == "garbage":
        speak_garbage()
    routes = [
        Route("/openapi.json", openapi),
        Route("/asked", asked_so_far),
        Route("/health", health),
        Route("/seed_session", seed, methods=["POST"]),
        Route("/reset", seed, methods=["POST"]),
        Route("/step", step, methods=["POST"]),
        Route("/verify", fail if arguments() == "fails" else verify, methods=["POST"]),
        Route("/mcp", mcp, methods=["POST"]),
        Route("/{name}", tool, methods=["POST"]),
    ]
    if arguments() == "threads":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    serve_app(Starlette(routes=routes), Path.cwd(), is_shared=arguments() == "shared")
