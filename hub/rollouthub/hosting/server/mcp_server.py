"""The MCP server of an environment: one object for all its episodes; each request says in its scope whose it is."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ServerCapabilities,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import to_json

from rollouthub.hosting.server.attachments import attachments, contents_of, listed
from rollouthub.hosting.server.served_episode import Call, ServedSeat
from rollouthub.http.asgi import Scope, connection_of
from rollouthub.http.event_stream import STREAM, EventStream, takes_events
from rollouthub.protocols import EnvironmentInfo
from rollouthub.tools import ProgressListener, heard_by

SEAT = "rollouthub.seat"
"""Where a request's scope holds the seat its token opened."""
MADE = "rollouthub.made"
"""Where it holds what came of a call that was made already: a result, or an exception."""
SESSION_HEADER = "mcp-session-id"

Context = ServerRequestContext[Any, Any]
_NAMES_HEADERS = b'"x-mcp-header"'
_GREETINGS = ("initialize", "server/discover")
_RESOURCE_NOT_FOUND = -32002
"""Of the specifications up to 2025-11-25."""
_HINT = CacheHint(ttl_ms=60_000, scope="private")


class EnvironmentServer(Server[Any]):
    """Answers for the seat in the request's scope: its tools, its task and attachments, nothing of anyone else's."""

    def __init__(self, info: EnvironmentInfo) -> None:
        # Asked for at every call, and looked through; only what such a schema says of headers matters.
        self.header_schemas = {
            tool.name: tool.input_schema for tool in info.tools if _NAMES_HEADERS in to_json(tool.input_schema)
        }
        super().__init__(
            info.name,
            version=info.version,
            get_tool_input_schema=self.header_schemas.get,
            cache_hints={
                "tools/list": _HINT,
                "prompts/list": _HINT,
                "resources/list": _HINT,
                "resources/templates/list": _HINT,
            },
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
            on_list_prompts=_list_prompts,
            on_list_resources=_list_resources,
            on_list_resource_templates=_list_resource_templates,
            on_get_prompt=_get_prompt,
            on_read_resource=_read_resource,
        )
        # The SDK's tracing middleware is left out: spans would carry what episodes must not share.
        self.middleware = [_in_the_name_of_the_seat]

    def get_capabilities(self, *arguments: Any, **more: Any) -> ServerCapabilities:
        """Tools, and prompts, of which there are none: who answers for them must say so.

        Resources are answered, too, being asked for anyway, but advertised to seats alone whose tasks have attachments:
        for a server that has them, some clients offer their model tools to read them with.
        """
        return super().get_capabilities(*arguments, **more).model_copy(update={"resources": None})


def scope_of(context: Context) -> Scope:
    """The scope of the HTTP request a message came by."""
    assert context.request is not None, "the environment is served over HTTP alone"
    return context.request.scope


def _seat(context: Context) -> ServedSeat:
    return scope_of(context)[SEAT]


def _call_key(context: Context, request_id: object) -> tuple[str | None, str]:
    """Names a call as its client may name it later: the session, and the request's id in it."""
    assert context.request is not None
    return context.request.headers.get(SESSION_HEADER), str(request_id)


async def _list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    return ListToolsResult(tools=list(_seat(context).plane.tools))


async def _call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
    scope = scope_of(context)
    made: CallToolResult | Exception | None = scope.get(MADE)
    if isinstance(made, Exception):
        raise made
    if made is not None:
        return made
    listener = _listener(context, params)
    key = _call_key(context, context.request_id)
    with nullcontext() if listener is None else heard_by(listener):
        return await make_call(scope[SEAT], scope, key, params.name, params.arguments or {})


async def make_call(
    seat: ServedSeat, scope: Scope, key: object, name: str, arguments: Mapping[str, Any]
) -> CallToolResult:
    """Call a tool for as long as the client of a request is there."""
    call = Call(key)
    connection = connection_of(scope)
    if connection is None:
        return await seat.call(name, arguments, call)
    connection.watch(call.scope)
    try:
        return await seat.call(name, arguments, call)
    finally:
        connection.forget(call.scope)


def _listener(context: Context, params: CallToolRequestParams) -> ProgressListener | None:
    """Who tells a call's client of its progress; None where it did not ask, or reads no events."""
    token = params.meta.get("progress_token") if params.meta is not None else None
    scope = scope_of(context)
    stream: EventStream | None = scope.get(STREAM)
    if token is None or stream is None or not takes_events(scope):
        return None
    seat = scope[SEAT]
    furthest = float("-inf")

    async def tell(done: float, total: float | None, message: str | None) -> None:
        nonlocal furthest
        # The specification wants every report further than the one before.
        if done <= furthest or seat.episode.is_sealed:
            return
        furthest = done
        parameters = {"progressToken": token, "progress": done, "total": total, "message": message}
        said = {key: value for key, value in parameters.items() if value is not None}
        await stream.say(to_json({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}))

    return tell


async def _list_prompts(context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[])


async def _list_resources(context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
    seat = _seat(context)
    return ListResourcesResult(resources=[] if seat.episode.is_sealed else listed(seat.plane.messages))


async def _list_resource_templates(
    context: Context, params: PaginatedRequestParams | None
) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=[])


async def _get_prompt(context: Context, params: GetPromptRequestParams) -> GetPromptResult:
    raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name!r}")


async def _read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    seat = _seat(context)
    found = None if seat.episode.is_sealed else await contents_of(seat.plane.messages, params.uri)
    if found is not None and not seat.episode.is_sealed:
        return ReadResourceResult(contents=[found])
    is_modern = context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS
    code = INVALID_PARAMS if is_modern else _RESOURCE_NOT_FOUND
    raise MCPError(code, "Resource not found", {"uri": params.uri})


async def _in_the_name_of_the_seat(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Tell each seat its own task, and let a cancellation name its own calls alone."""
    if ctx.method == "notifications/cancelled" and isinstance(ctx.params, Mapping):
        # The SDK cancels the call itself; marking it as well lets the next one wait for its clean-up.
        _seat(ctx).cancel(_call_key(ctx, ctx.params.get("requestId")))
    result = await call_next(ctx)
    if ctx.method in _GREETINGS and isinstance(result, dict):
        seat = _seat(ctx)
        response = {**result, "instructions": seat.task_text}
        if attachments(seat.plane.messages):
            response["capabilities"] = {**result["capabilities"], "resources": {}}
        return response
    return result
