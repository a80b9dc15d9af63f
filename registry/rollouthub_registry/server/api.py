"""The HTTP API of a registry: the MCP registry's read API, and the hub's own under /envhub/v1."""

import base64
import json
from datetime import datetime
from typing import Any, cast

from anyio import to_thread
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from rollouthub.errors import invalid_fields
from rollouthub.values import Frozen
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.access_control import AccessControl
from rollouthub_registry.server.directory_layout import FORMAT
from rollouthub_registry.server.index import Page
from rollouthub_registry.server.registry import LONGEST_REASON, Registry
from rollouthub_registry.server.responses import HEADERS, json_answer
from rollouthub_registry.server.search import FACETS, ORDERS, Query
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.upload import receive, upload_folder

PAGE_SIZE, LARGEST_PAGE = 30, 100
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
_JSON_BYTES = 8192
_MCP = ("/v0.1", "/v0")
"""Paths of the MCP registry's API, served alike at both, since there are clients of each."""


class _YankRequest(Frozen):
    reason: str = Field(default="", max_length=LONGEST_REASON)


class Api:
    """The API endpoints of one registry."""

    def __init__(self, registry: Registry, access: AccessControl, url: str) -> None:
        """`url` is the address under which clients reach the registry, used for bundles' URLs."""
        self._registry, self._access, self._url = registry, access, url

    def routes(self) -> list[Route]:
        """The routes of the API."""
        one = "/envhub/v1/packages/{namespace}/{name}/{version}"
        return [
            Route("/registry.json", self.marker),
            *[route for prefix in _MCP for route in self._servers(f"{prefix}/servers")],
            Route("/envhub/v1/search", self.search),
            Route("/envhub/v1/token", self.token),
            Route("/envhub/v1/packages", self.publish, methods=["POST"]),
            Route("/envhub/v1/packages/{namespace}/{name}", self.package),
            Route(one, self.version),
            Route(f"{one}/bundle", self.bundle),
            Route(f"{one}/statement", self.statement),
            Route(f"{one}/audit", self.audit),
            Route(f"{one}/yank", self.yank, methods=["POST"]),
            Route("/health", self.health),
        ]

    def _servers(self, path: str) -> list[Route]:
        return [
            Route(path, self.servers),
            Route(f"{path}/{{namespace}}/{{name}}/versions", self.server_versions),
            Route(f"{path}/{{namespace}}/{{name}}/versions/{{version}}", self.server_version),
        ]

    async def marker(self, request: Request) -> Response:
        """`GET /registry.json`: the directory's marker, and the path of the API."""
        return json_answer({"format": FORMAT, "api": "/envhub/v1"})

    async def servers(self, request: Request) -> Response:
        """`GET /v0.1/servers`."""
        asked = request.query_params
        since = _moment(asked["updated_since"]) if "updated_since" in asked else None

        def page() -> Page:
            return self._registry.index.page(
                _number(asked.get("limit"), "limit", PAGE_SIZE, LARGEST_PAGE),
                _place(asked["cursor"]) if asked.get("cursor") else None,
                containing=asked.get("search", ""),
                updated_since=since,
                include_yanked=_flag(asked.get("include_deleted"), "include_deleted"),
                version=asked.get("version"),
            )

        found = await to_thread.run_sync(page)
        metadata: dict[str, Any] = {"count": len(found.listings)}
        if found.next_cursor is not None:
            metadata["nextCursor"] = _cursor(found.next_cursor)
        servers = [listing.as_server(self._url) for listing in found.listings]
        return json_answer({"servers": servers, "metadata": metadata})

    async def server_versions(self, request: Request) -> Response:
        """`GET /v0.1/servers/{name}/versions`."""
        found = await to_thread.run_sync(self._registry.versions, _package(request))
        if not _flag(request.query_params.get("include_deleted"), "include_deleted"):
            found = [listing for listing in found if listing.yanked is None]
        servers = [listing.as_server(self._url) for listing in found]
        return json_answer({"servers": servers, "metadata": {"count": len(servers)}})

    async def server_version(self, request: Request) -> Response:
        """`GET /v0.1/servers/{name}/versions/{version}`; for a yanked version, the status says so."""
        return json_answer((await self._find(request)).as_server(self._url))

    async def search(self, request: Request) -> Response:
        """`GET /envhub/v1/search`."""
        query = query_of(request)
        found = await to_thread.run_sync(self._registry.search, query)
        results = [listing.as_json() for listing in found.listings]
        return json_answer({"total": found.total, "offset": query.offset, "results": results})

    async def package(self, request: Request) -> Response:
        """`GET /envhub/v1/packages/{ns}/{name}`: all versions, yanked ones included."""
        found = await to_thread.run_sync(self._registry.versions, _package(request))
        return json_answer({"versions": [listing.as_json() for listing in found]})

    async def version(self, request: Request) -> Response:
        """`GET /envhub/v1/packages/{ns}/{name}/{version|latest}`."""
        return json_answer((await self._find(request)).as_json())

    async def bundle(self, request: Request) -> Response:
        """`GET …/bundle`: the archive's bytes."""
        listing = await self._find(request)
        digest = listing.facts.digest
        if request.method == "GET" and "range" not in request.headers:
            await to_thread.run_sync(self._registry.index.count_download, listing.release.package)
        headers = {**HEADERS, **_FOREVER, "X-Content-Digest": digest}
        path = self._registry.layout.bundle(listing.release)
        return FileResponse(path, 200, headers, "application/octet-stream", filename=listing.release.file_name)

    async def statement(self, request: Request) -> Response:
        """`GET …/statement`: the signed envelope exactly as its publisher sent it."""
        listing = await self._find(request)
        path = self._registry.layout.statement(listing.release)
        return FileResponse(path, 200, {**HEADERS, **_FOREVER}, "application/vnd.in-toto+json")

    async def audit(self, request: Request) -> Response:
        """`GET …/audit`: the signed audit of who keeps the registry; 404 where there is none."""
        listing = await self._find(request)
        path = self._registry.layout.audit(listing.release)
        if not path.exists():
            raise RegistryRequestRefused(404, f"{listing.release} was not audited here")
        return FileResponse(path, 200, {**HEADERS, "Cache-Control": "max-age=60"}, "application/vnd.in-toto+json")

    async def token(self, request: Request) -> Response:
        """`GET /envhub/v1/token`: what the request's token permits."""
        token = await self._access.known(request, is_read=True)
        expires = token.expires_at.isoformat(timespec="seconds") if token.expires_at is not None else None
        held = {"id": token.token_id, "namespace": token.namespace, "scopes": token.scopes, "expires_at": expires}
        return json_answer(held)

    async def publish(self, request: Request) -> Response:
        """`POST /envhub/v1/packages`."""
        token = await self._access.known(request)
        async with upload_folder(self._registry.layout) as folder:
            content_type, length = request.headers.get("content-type", ""), request.headers.get("content-length")
            await receive(content_type, length, request.stream(), folder)

            def permit(release: Release) -> None:
                self._access.permit(token, "publish", release.package.namespace)

            listing = await to_thread.run_sync(self._registry.accept, folder, permit)
        return json_answer(listing.as_json(), 201)

    async def yank(self, request: Request) -> Response:
        """`POST …/yank`."""
        token = await self._access.known(request)
        release = _release(request)
        self._access.permit(token, "yank", release.package.namespace)
        asked = await _body(request)
        return json_answer((await to_thread.run_sync(self._registry.yank, release, asked.reason)).as_json())

    async def health(self, request: Request) -> Response:
        """`GET /health`."""
        return json_answer({"status": "ok"})

    async def _find(self, request: Request) -> Any:
        package = _package(request)
        if request.path_params["version"] == "latest":
            return await to_thread.run_sync(self._registry.latest, package)
        return await to_thread.run_sync(self._registry.get, _release(request))


def query_of(request: Request) -> Query:
    """The search that a URL's query asks for.

    Raises:
        RegistryRequestRefused: a value is invalid.
    """
    asked = request.query_params
    if (order := asked.get("sort") or "relevance") not in ORDERS:
        raise RegistryRequestRefused(400, f"there is no order {order[:40]!r}; there are: {', '.join(ORDERS)}")
    return Query(
        words=asked.get("q", "")[:500],
        order=order,
        namespace=asked.get("namespace") or None,
        tag=asked.get("tag") or None,
        passed_only=_flag(asked.get("passed"), "passed"),
        kind=_facet(asked.get("kind"), "kind"),
        audit=_facet(asked.get("audit"), "audit"),
        needs=_facet(asked.get("needs"), "needs"),
        licence=(asked.get("licence") or None),
        limit=_number(asked.get("limit"), "limit", 20, LARGEST_PAGE),
        offset=_number(asked.get("offset"), "offset", 0, 1_000_000, least=0),
    )


def _facet(text: str | None, name: str) -> str | None:
    if text and text not in FACETS[name]:
        raise RegistryRequestRefused(400, f"{name} is one of {', '.join(FACETS[name])}, and not {text[:40]!r}")
    return text or None


def _package(request: Request) -> PackageName:
    return PackageName.parse(f"{request.path_params['namespace']}/{request.path_params['name']}")


def _release(request: Request) -> Release:
    return Release.parse(f"{_package(request)}@{request.path_params['version']}")


async def _body(request: Request) -> _YankRequest:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _JSON_BYTES:
            raise RegistryRequestRefused(413, f"the request has more than {_JSON_BYTES} bytes")
    try:
        return _YankRequest.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise RegistryRequestRefused(400, f'send {{"reason": "…"}}: {invalid_fields(error)}') from error


def _number(text: str | None, name: str, default: int, most: int, least: int = 1) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise RegistryRequestRefused(400, f"{name} is a number from {least} to {most}, and not {text[:40]!r}")
    return int(text)


def _flag(text: str | None, name: str) -> bool:
    if text not in (None, "", "true", "false", "1", "0", "on"):
        raise RegistryRequestRefused(400, f"{name} is true or false, and not {text[:40]!r}")
    return text in ("true", "1", "on")


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # a plus of an offset that was not encoded
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RegistryRequestRefused(
            400, f"updated_since is a time such as 2026-01-31T12:00:00Z, and not {text[:40]!r}"
        )
    return moment.timestamp()


def _cursor(place: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[str, str]:
    try:
        held: Any = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except ValueError:
        held = None
    parts = cast(list[Any], held) if isinstance(held, list) else []
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise RegistryRequestRefused(400, "the cursor is none that this registry gave; begin again without one")
    return parts[0], parts[1]
