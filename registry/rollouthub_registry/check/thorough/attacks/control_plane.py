"""Attack: looks for the control plane on the agents' side, with an agent's credentials (L3)."""

import base64
from collections.abc import Iterator
from urllib.parse import quote

from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

_OPEN_TO_ALL = ("/health",)
_VERBS = ("PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "GET", "EVIL")
_CONTROL = (
    ("GET", "/v1/environment"), ("GET", "/v1/tasks"), ("GET", "/v1/tasks/{task}"),
    ("GET", "/v1/tasks/{task}/reference"),
    ("POST", "/v1/episodes"), ("GET", "/v1/episodes/{id}"), ("GET", "/v1/episodes/{id}/reference"),
    ("GET", "/v1/episodes/{id}/state"), ("GET", "/v1/episodes/{id}/events"), ("POST", "/v1/episodes/{id}/seal"),
    ("POST", "/v1/episodes/{id}/verify"), ("POST", "/v1/episodes/{id}/reply"), ("DELETE", "/v1/episodes/{id}"),
    ("POST", "/v1/verify"), ("POST", "/v1/score_group"), ("GET", "/metrics"),
)  # fmt: skip
_GUESSED = (
    "/", "/control", "/admin", "/debug", "/docs", "/openapi.json", "/.env", "/.git/config", "/state", "/reset", "/step",
    "/verify", "/evaluate", "/ws", "/sse", "/messages", "/api/v1/environment", "/e/", "/e/{token}", "/e/{token}/",
    "/e/{token}/verify", "/e/{token}/seal", "/e/{token}/state", "/e/{token}/control/v1/environment",
    "/e/{token}/v1/environment", "/e/{token}/mcp/../../../v1/environment", "/e/{token}/mcp/v1/environment",
    "/e/{token}/mcp/..%2f..%2f..%2fv1%2fenvironment", "//v1/environment", "/./v1/environment", "/v1//environment",
    "/%76%31/environment", "/v1/environment/", "/v1/environment%00", "/e/{token}/mcp;/v1/environment",
    "/llm/{token}/v1/../../../v1/environment", "/llm/{token}", "/llm/{token}/admin", "/episodes", "/live", "/metrics/",
)  # fmt: skip
_MODEL_API_PATHS = (
    "episodes", "verify", "environment", "tasks", "files", "fine_tuning/jobs", "embeddings", "assistants", "admin",
    "keys",
    "models/secret", "chat/completions/../../../v1/environment", "responses/resp_1", "batches", "../v1/episodes",
)  # fmt: skip


def _filled(path: str, opened: OpenEpisode) -> str:
    token, task = opened.place.token, quote(opened.card.public.id, safe="")
    return path.replace("{token}", token).replace("{id}", quote(opened.id, safe="")).replace("{task}", task)


async def control_routes(context: AttackContext) -> str:
    """Control routes, and guessed ones, on the agents' listeners must not work without a token, with the seat's or
    the hub's.
    """
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            place = opened.place
            keys = {
                "no token": {},
                "the seat's token": {"Authorization": f"Bearer {place.token}", "X-Api-Key": place.token},
                "the control token": {"Authorization": f"Bearer {opened.target.control_token}"},
            }
            routes = [*_CONTROL, *(("GET", path) for path in _GUESSED), *(("POST", path) for path in _GUESSED)]
            for holds, headers in keys.items():
                for method, path in routes:
                    body = b"{}" if method == "POST" else None
                    where = f"{method} {path} with {holds} at the {opened.access_point}"
                    answer = await context.wire.send(where, method, place.base + _filled(path, opened), body, headers)
                    if _answers(answer) and path not in _OPEN_TO_ALL:
                        context.note(
                            f"{method} {path} answers {holds} with {answer.status} at the {opened.access_point}", answer
                        )
            await context.must_stay_open(opened, "that")
    return f"{context.wire.requests} requests for control routes get nothing"


async def model_api_routes(context: AttackContext) -> str:
    """Below the model API's address there must be only models and completions."""
    async with context.episode("gateway") as opened:
        base = opened.place.llm_url
        if base is None:
            raise NotTried("the gateway gives this seat no model API")
        for path in _MODEL_API_PATHS:
            for method in ("GET", "POST", "DELETE"):
                where = f"{method} {path} at the model API"
                answer = await context.wire.send(where, method, f"{base}/{path}", b"{}" if method == "POST" else None)
                if _answers(answer):
                    context.note(f"the model API answers {method} {path} with {answer.status}", answer)
        await context.must_stay_open(opened, "that")
    return f"{context.wire.requests} requests beside the dialects get nothing"


async def verbs(context: AttackContext) -> str:
    """An MCP endpoint must take POST, and DELETE for sessions; every other method must be refused."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for method in _VERBS:
                where = f"{method} at the {opened.access_point}"
                answer = await context.wire.send(where, method, opened.place.url, None, raw_mcp.ACCEPT)
                if _answers(answer):
                    context.note(f"{method} of the MCP endpoint is answered with {answer.status}", answer)
    return f"{len(_VERBS)} methods are refused"


async def control_with_agent_token(context: AttackContext) -> str:
    """No seat's token, wherever it is in a request, may open the control plane; nor may no token."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            token = opened.place.token
            for headers, query in _adopted(token, opened.target.control_token):
                for method, path in _CONTROL:
                    address = opened.target.control_address(_filled(path, opened)) + query
                    where = f"control plane {method} {path} with {', '.join(headers) or query or 'nothing'}"
                    body = b"{}" if method == "POST" else None
                    answer = await context.wire.send(where, method, address, body, headers, http=opened.target.control)
                    if _answers(answer):
                        context.note(f"the control plane answers {method} {path} to what an agent holds", answer)
            await context.must_stay_open(opened, "that")
    return f"{context.wire.requests} requests with agents' tokens are refused"


def _adopted(token: str, control: str) -> Iterator[tuple[dict[str, str], str]]:
    basic = base64.b64encode(f"agent:{token}".encode()).decode()
    yield {}, ""
    yield {"Authorization": f"Bearer {token}"}, ""
    yield {"Authorization": f"Basic {basic}"}, ""
    yield {"Authorization": "Bearer "}, ""
    yield {"Authorization": f"Bearer {control[:-1]}"}, ""
    yield {"Authorization": f"bearer{control}"}, ""
    yield {"X-Api-Key": token, "Cookie": f"token={token}"}, ""
    yield {}, f"?token={token}&access_token={token}"


def _answers(answer: RawExchange) -> bool:
    return answer.status is not None and answer.status < 300


ATTACKS = (
    Attack("control-routes", "L3", "the agents' listeners serve no control route, with any token", control_routes),
    Attack("seam-routes", "L3", "the model API answers for models and nothing else", model_api_routes),
    Attack("verbs", "L3", "an MCP endpoint takes POST and DELETE alone", verbs),
    Attack("agent-token", "L3", "what an agent holds opens nothing of the control plane", control_with_agent_token),
)
