"""The web pages of a registry: the same data as the API's, without JavaScript, all of it escaped."""

from urllib.parse import urlencode, urlsplit

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rollouthub.errors import UsageError
from rollouthub.views.markup import Markup, join, tag
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.api import query_of
from rollouthub_registry.server.registry import Registry
from rollouthub_registry.server.responses import HEADERS
from rollouthub_registry.server.search import ORDERS, Found, Query
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.style import STYLE
from rollouthub_registry.server.version_listing import Listing, moment

POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"


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
        ]

    async def browse(self, request: Request) -> Response:
        """The page with all environments, or with those that match a search."""
        try:
            query = query_of(request)
            found = await to_thread.run_sync(self._registry.search, query)
        except UsageError as error:
            return _refusal(self._base, error)
        return _page(self._base, "Environments", _search_form(query), _results(query, found))

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
        except UsageError as error:
            return _refusal(self._base, error)
        return _page(self._base, str(package), *_package(shown, versions, self._url))

    async def style(self, request: Request) -> Response:
        """The pages' one style sheet."""
        return Response(STYLE, 200, {**HEADERS, "Cache-Control": "max-age=3600"}, "text/css")


def _page(base: str, title: str, *content: str, status: int = 200) -> Response:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("base", href=base),
        tag("title", f"{title} · rollouthub registry"),
        tag("link", rel="stylesheet", href="style.css"),
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
    return _page(base, heading, tag("h1", heading), tag("p", str(error)), status=status)


def _search_form(query: Query) -> Markup:
    orders = [tag("option", order, value=order, selected=order == query.order) for order in ORDERS]
    passed = tag("input", type="checkbox", name="passed", value="1", checked=query.passed_only)
    return tag(
        "form",
        tag(
            "input", type="search", name="q", value=query.words, placeholder="Search environments", aria_label="Search"
        ),
        tag("select", orders, name="sort", aria_label="Order"),
        tag("label", passed, " checks passed"),
        tag("button", "Search"),
        action="./",
        role="search",
    )


def _results(query: Query, found: Found) -> Markup:
    if not found.listings:
        return tag("p", "Nothing fits." if query.words or query.tag else "Nothing is published yet.", class_="soft")
    first, last = query.offset + 1, query.offset + len(found.listings)
    links = [
        tag("a", text, href=f"./?{_address(query, offset)}")
        for text, offset in (("Previous", query.offset - query.limit), ("Next", query.offset + query.limit))
        if -query.limit < offset < found.total and offset != query.offset and (offset >= 0 or query.offset > 0)
    ]
    return join(
        tag("p", f"{first}–{last} of {found.total}", class_="soft"),
        tag("ul", [_card(listing) for listing in found.listings], class_="cards"),
        tag("nav", links) if links else None,
    )


def _address(query: Query, offset: int) -> str:
    asked = {"q": query.words, "sort": query.order, "tag": query.tag or "", "namespace": query.namespace or ""}
    kept = {key: value for key, value in asked.items() if value}
    return urlencode({**kept, **({"passed": "1"} if query.passed_only else {}), "offset": max(0, offset)})


def _card(listing: Listing) -> Markup:
    name, facts = str(listing.release.package), listing.facts
    return tag(
        "li",
        tag(
            "div",
            tag("a", name, href=f"packages/{name}", class_="name"),
            tag("span", str(listing.release.version)),
            _checks(listing),
            _audit(listing),
            class_="row",
        ),
        tag("p", facts.description or "No description."),
        tag("div", _signals(listing), [_tag(word) for word in facts.tags], class_="row"),
    )


def _signals(listing: Listing) -> list[Markup]:
    facts = listing.facts
    count = listing.downloads
    said = [f"{count} download{'' if count == 1 else 's'}", *([facts.licence] if facts.licence else [])]
    if facts.difficulty is not None:
        said.append(f"difficulty {facts.difficulty:.2f}")
    return [tag("span", text) for text in said]


def _checks(listing: Listing) -> Markup:
    if listing.facts.checks_passed:
        return tag("span", "checks passed", class_="mark good")
    return tag("span", "checks failed", class_="mark bad")


def _audit(listing: Listing) -> Markup | None:
    """The badge of the latest audit."""
    audit = listing.facts.audit
    if audit is None:
        return None
    if audit["sound"]:
        return tag("span", f"audited {audit['at'][:10]}", class_="mark good")
    return tag("span", f"audit {audit['at'][:10]}: {', '.join(audit['broken'][:6])}", class_="mark bad")


def _audit_words(listing: Listing) -> str | None:
    audit = listing.facts.audit
    if audit is None:
        return None
    by = "who keeps the registry" if audit.get("is_of_registry") else "its publisher"
    found = "nothing found" if audit["sound"] else f"found {', '.join(audit['broken'])}"
    defective = f", {audit['defective']} of them defective" if audit["defective"] else ""
    of = f"{len(audit['tried'])} classes tried on {audit['tasks']} tasks{defective}"
    return f"{found} in {of}, {audit['at'][:10]}, by {by}"


def _tag(word: str) -> Markup:
    return tag("a", word, href=f"./?{urlencode({'tag': word})}", class_="tag")


def _package(shown: Listing, versions: list[Listing], url: str) -> list[Markup]:
    facts, release = shown.facts, shown.release
    parts = [
        tag("h1", str(release.package)),
        tag(
            "div",
            tag("span", f"version {release.version}"),
            _checks(shown),
            _audit(shown),
            _signals(shown),
            class_="row",
        ),
        tag("p", facts.description or "No description."),
        tag("div", [_tag(word) for word in facts.tags], class_="row"),
    ]
    parts += [
        tag("h2", "Install"),
        _install(shown, versions, url),
        tag("h2", "Baselines"),
        _baselines(shown),
        tag("h2", "About"),
        _about(shown),
        tag("h2", "Versions"),
        _versions(versions),
    ]
    return parts


def _install(shown: Listing, versions: list[Listing], url: str) -> Markup:
    """How to install the version; if it is yanked, why not to."""
    if shown.yanked is None:
        return tag("pre", tag("code", f"hub install {shown.release} --registry {url}"))
    said = f"This version is yanked: {shown.yanked or 'no reason was given.'}"
    where = next((each.release for each in versions if each.is_latest and each.yanked is None), None)
    name = str(where.version) if where is not None else ""
    instead = join(" Take ", tag("a", name, href=f"packages/{where.package}/{name}"), ".") if where else None
    return tag("p", said, tag("br"), "It is installed only where a lock names it.", instead, class_="notice")


def _baselines(shown: Listing) -> Markup:
    if not shown.facts.baselines:
        return tag("p", "None were published with it.", class_="soft")
    rows = [
        tag("tr", tag("td", model), tag("td", _number(mean), class_="number"), tag("td", str(samples), class_="number"))
        for model, mean, samples in shown.facts.baselines
    ]
    return _table(("Model", "Mean reward", "Samples"), rows)


def _number(reward: float) -> str:
    return f"{reward:.3f}" if abs(reward) < 1e6 else f"{reward:.3g}"


def _about(shown: Listing) -> Markup:
    facts = shown.facts
    rows: list[tuple[str, str | None]] = [
        ("Checks", "passed before it was published" if facts.checks_passed else "failed; published all the same"),
        ("Audit", _audit_words(shown) or "none"),
        ("Licence", facts.licence or "not given"),
        ("Authors", ", ".join(facts.authors)),
        ("Homepage", _link(facts.homepage)),
        ("Source", _link(facts.repository)),
        ("Splits", ", ".join(facts.splits)),
        ("Size", f"{facts.size / 1000:,.1f} kB"),
        ("Published", moment(shown.published_at)[:19].replace("T", " ") + " UTC"),
        ("Digest", tag("code", facts.digest)),
        ("Tools", tag("code", facts.tools_digest) if facts.tools_digest else None),
        ("Signed by", tag("code", facts.key_id)),
        ("Public key", tag("code", facts.public_key)),
        ("Contract", f"{facts.contract}, published by hub {facts.hub_version}"),
    ]
    return tag("dl", [join(tag("dt", name), tag("dd", value)) for name, value in rows if value])


def _link(url: str) -> Markup | None:
    """A link to an http or https URL; None for any other URL."""
    try:
        is_web = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        is_web = False
    return tag("a", url, href=url, rel="nofollow noopener noreferrer") if is_web else None


def _versions(versions: list[Listing]) -> Markup:
    rows = [
        tag(
            "tr",
            tag(
                "td",
                tag("a", str(each.release.version), href=f"packages/{each.release.package}/{each.release.version}"),
            ),
            tag("td", moment(each.published_at)[:10], class_="number"),
            tag(
                "td",
                _checks(each),
                " ",
                _audit(each),
                " ",
                tag("span", "yanked", class_="mark bad") if each.yanked is not None else None,
            ),
        )
        for each in sorted(versions, key=lambda listing: listing.release.version, reverse=True)
    ]
    return _table(("Version", "Published", "State"), rows)


def _table(head: tuple[str, ...], rows: list[Markup]) -> Markup:
    titles = tag("tr", [tag("th", title) for title in head])
    return tag("div", tag("table", tag("thead", titles), tag("tbody", rows)), class_="wide")
