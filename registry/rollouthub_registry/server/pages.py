"""The web pages of a registry: the same data as the API's, without JavaScript, all of it escaped."""

from urllib.parse import urlsplit

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rollouthub.errors import UsageError
from rollouthub.views.markup import tag
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.api import query_of
from rollouthub_registry.server.package_details import package_details
from rollouthub_registry.server.package_page import package_page
from rollouthub_registry.server.registry import Registry
from rollouthub_registry.server.responses import HEADERS
from rollouthub_registry.server.search import facet_counts
from rollouthub_registry.server.search_page import search_page
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.style import ICON, STYLE

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)


class Pages:
    """The web pages of one registry."""

    def __init__(self, registry: Registry, url: str) -> None:
        """`url` is the address of the registry, shown in the commands to install from it."""
        self._registry, self._url = registry, url
        self._base = f"{urlsplit(url).path}/"

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        return [
            Route("/", self.browse),
            Route("/packages/{namespace}/{name}", self.package),
            Route("/packages/{namespace}/{name}/{version}", self.package),
            Route("/style.css", self.style),
            Route("/favicon.svg", self.icon),
            Route("/favicon.ico", self.icon),
        ]

    async def browse(self, request: Request) -> Response:
        """The page with all environments, or with those that match a search."""
        try:
            query = query_of(request)
            found = await to_thread.run_sync(self._registry.search, query)
            facets = await to_thread.run_sync(facet_counts, self._registry.index, query)
        except UsageError as error:
            return _refusal(self._base, error)
        return _page(self._base, "Environments", search_page(query, found, facets))

    async def package(self, request: Request) -> Response:
        """The page of one environment: its latest version, or the one in the path."""
        asked = request.path_params
        try:
            package = PackageName.parse(f"{asked['namespace']}/{asked['name']}")
            versions = await to_thread.run_sync(self._registry.versions, package)
            if "version" in asked:
                shown = await to_thread.run_sync(self._registry.get, Release.parse(f"{package}@{asked['version']}"))
            else:
                shown = next(listing for listing in versions if listing.is_latest)
            details = await to_thread.run_sync(package_details, self._registry.layout, shown.release)
        except UsageError as error:
            return _refusal(self._base, error)
        return _page(self._base, str(package), *package_page(shown, versions, self._url, details))

    async def style(self, request: Request) -> Response:
        """The pages' one style sheet."""
        return Response(STYLE, 200, {**HEADERS, "Cache-Control": "max-age=3600"}, "text/css")

    async def icon(self, request: Request) -> Response:
        """The pages' icon."""
        return Response(ICON, 200, {**HEADERS, "Cache-Control": "max-age=86400"}, "image/svg+xml")


def _page(base: str, title: str, *content: str | None, status: int = 200) -> Response:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("base", href=base),
        tag("title", f"{title} · rollouthub registry"),
        tag("link", rel="stylesheet", href="style.css"),
        tag("link", rel="icon", href="favicon.svg", type="image/svg+xml"),
    )
    body = tag(
        "body",
        tag("header", tag("a", "rollouthub registry", href="./")),
        tag("main", *content),
        tag("footer", tag("p", "For programs: ", tag("code", "/v0.1/servers"), " and ", tag("code", "/envhub/v1"))),
    )
    markup = f"<!doctype html>{tag('html', head, body, lang='en')}"
    return Response(markup, status, {**HEADERS, "Content-Security-Policy": POLICY}, "text/html")


def _refusal(base: str, error: UsageError) -> Response:
    status = error.status if isinstance(error, RegistryRequestRefused) else 404
    heading = "There is no such page" if status == 404 else "This cannot be shown"
    return _page(
        base,
        heading,
        tag("h1", heading),
        tag("p", str(error)),
        tag("p", tag("a", "All environments", href="./")),
        status=status,
    )
