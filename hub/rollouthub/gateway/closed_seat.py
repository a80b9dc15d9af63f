"""Answers to calls after an episode is over: a fixed error for each, without access to the episode."""

import msgspec

from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.agent_plane import MAX_BODY_BYTES, NOT_FOUND
from rollouthub.http.asgi import Receive, Scope, Send, TooLarge, answer, read_body


class _LateRequest(msgspec.Struct):
    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str = ""


_requests = msgspec.json.Decoder(_LateRequest)


async def answer_late(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request to an episode that is over: tool calls get a fixed error, DELETE succeeds, anything else is
    not found.
    """
    if scope["method"] == "DELETE":
        await answer(send, 200)
        return
    if scope["method"] != "POST":
        await answer(send, 405, headers=[(b"allow", b"POST, DELETE")])
        return
    try:
        request = _requests.decode(await read_body(scope, receive, MAX_BODY_BYTES))
    except (TooLarge, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        await answer(send, 404, NOT_FOUND)
        return
    if request.id is msgspec.UNSET:
        await answer(send, 202)
    elif request.method == "tools/call":
        result = {"content": [{"type": "text", "text": CLOSED}], "isError": True, "resultType": "complete"}
        await answer(send, 200, msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "result": result}))
    else:
        await answer(send, 404, NOT_FOUND)
