"""The guard of our listeners, before an application of aiohttp."""

import json

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rollouthub.http.asgi import Guard


def guarded(guard: Guard) -> Middleware:
    """Refuses what the guard refuses, before anything else of a request is looked at."""

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
