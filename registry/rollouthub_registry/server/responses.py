"""JSON responses and errors (RFC 9457, with the MCP registry's `error` field)."""

import json
import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rollouthub.errors import UsageError
from rollouthub_registry.server.server_error import RegistryRequestRefused

logger = logging.getLogger(__name__)

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON response."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(body, status, HEADERS, "application/json")


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error response."""
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "error": detail}
    return Response(json.dumps(body), status, {**HEADERS, **(headers or {})}, "application/problem+json")


async def refused(_: Request, error: Exception) -> Response:
    """The response to a refused request."""
    if isinstance(error, RegistryRequestRefused):
        after = error.retry_after_seconds
        headers = {} if after is None else {"Retry-After": str(math.ceil(after))}
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return problem(error.status, str(error), headers)
    assert isinstance(error, UsageError)
    return problem(400, str(error))


async def unserved(_: Request, error: Exception) -> Response:
    """The response for an address or method that does not exist."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, error.headers)


async def broken(_: Request, error: Exception) -> Response:
    """The response to an error of the server; its details go to the log only."""
    logger.error("a request failed", exc_info=error)
    return problem(500, "the registry could not do this; its log says why")
