"""The Host and Origin guard for aiohttp applications."""

import json

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rollouthub.http.asgi import Guard


def guarded(guard: Guard) -> Middleware:
    """Return a middleware that rejects a request that the guard refuses before its body is read."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = [(name.lower(), value) for name, value in request.raw_headers]
        status = guard.refusal({"headers": headers})
        if status is None:
            return await handler(request)
        message = "The request names a foreign Host or Origin."
        error = {"message": message, "type": "Forbidden", "param": None, "code": status}
        return web.Response(status=status, text=json.dumps({"error": error}), content_type="application/json")

    return check
