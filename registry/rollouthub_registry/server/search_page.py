"""The home of a registry: a search with facets, the environments it finds, and a way back where it finds none."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from rollouthub.views.markup import Markup, join, tag
from rollouthub_registry.server.package_page import audit_mark, checks_mark, signals, tag_link
from rollouthub_registry.server.search import ORDERS, Found, Query
from rollouthub_registry.server.version_listing import Listing

_FACETS = {"kind": "Made as", "audit": "Audit", "needs": "Needs", "licence": "Licence"}
_WORDS = {
    ("kind", "python"): "Python class",
    ("kind", "command"): "server command",
    ("kind", "image"): "server image",
    ("kind", "url"): "remote server",
    ("audit", "sound"): "nothing found",
    ("audit", "found"): "something found",
    ("audit", "none"): "not audited",
}


def search_page(query: Query, found: Found, facets: Mapping[str, Mapping[str, int]]) -> Markup:
    """The whole page."""
    return join(
        tag("h1", "Environments"),
        _form(query),
        _chosen(query),
        tag("div", _facets(query, facets), tag("div", _results(query, found)), class_="beside"),
    )


def _form(query: Query) -> Markup:
    orders = [tag("option", order, value=order, selected=order == query.order) for order in ORDERS]
    passed = tag("input", type="checkbox", name="passed", value="1", checked=query.passed_only)
    kept = {key: value for key, value in _asked(query).items() if key not in ("q", "sort", "passed")}
    return tag(
        "form",
        tag(
            "input", type="search", name="q", value=query.words, placeholder="Search environments", aria_label="Search"
        ),
        tag("select", orders, name="sort", aria_label="Order"),
        tag("label", passed, " checks passed"),
        [tag("input", type="hidden", name=name, value=value) for name, value in kept.items()],
        tag("button", "Search"),
        action="./",
        role="search",
    )


def _asked(query: Query) -> dict[str, str]:
    """The parameters of a search, as its address has them."""
    asked = {
        "q": query.words,
        "sort": "" if query.order == "relevance" else query.order,
        "tag": query.tag or "",
        "namespace": query.namespace or "",
        "passed": "1" if query.passed_only else "",
        **{name: getattr(query, name) or "" for name in _FACETS},
    }
    return {key: value for key, value in asked.items() if value}


def _address(query: Query) -> str:
    offset = {"offset": str(query.offset)} if query.offset else {}
    asked = urlencode({**_asked(query), **offset})
    return f"./?{asked}" if asked else "./"


def _chosen(query: Query) -> Markup | None:
    """The filters in force, each with a link that takes it away."""
    shown = [(name, value) for name, value in _asked(query).items() if name not in ("q", "sort")]
    if not shown:
        return None
    links: list[Markup] = []
    for name, value in shown:
        taken: Query = replace(query, offset=0, **{"passed_only" if name == "passed" else name: None})
        if name == "passed":
            taken = replace(query, offset=0, passed_only=False)
        words = "checks passed" if name == "passed" else f"{name}: {_WORDS.get((name, value), value)}"
        links.append(tag("a", f"{words} ✕", href=_address(taken), class_="tag", aria_label=f"Remove {words}"))
    return tag("div", "Only ", links, class_="row")


def _facets(query: Query, facets: Mapping[str, Mapping[str, int]]) -> Markup | None:
    parts: list[Markup] = []
    for name, title in _FACETS.items():
        counts = facets.get(name, {})
        if not counts or (len(counts) < 2 and getattr(query, name) is None):
            continue
        items = [_facet(query, name, value, number) for value, number in counts.items()]
        parts.append(join(tag("h2", title), tag("ul", items)))
    return tag("aside", parts, aria_label="Narrow the search") if parts else None


def _facet(query: Query, name: str, value: str, number: int) -> Markup:
    words, is_chosen = _WORDS.get((name, value), value), getattr(query, name) == value
    address = _address(replace(query, offset=0, **{name: None if is_chosen else value}))
    current = "true" if is_chosen else None
    return tag("li", tag("a", words, href=address, aria_current=current), tag("span", f" {number:,}", class_="soft"))


def _results(query: Query, found: Found) -> Markup:
    if not found.listings:
        return _nothing(query, found)
    first, last = query.offset + 1, query.offset + len(found.listings)
    links = [
        tag("a", text, href=_address(replace(query, offset=max(0, offset))))
        for text, offset in (("Previous", query.offset - query.limit), ("Next", query.offset + query.limit))
        if -query.limit < offset < found.total and offset != query.offset and (offset >= 0 or query.offset > 0)
    ]
    return join(
        tag("p", f"{first}–{last} of {found.total}", class_="soft"),
        tag("ul", [_card(listing) for listing in found.listings], class_="cards-list"),
        tag("nav", links, aria_label="Pages") if links else None,
    )


def _nothing(query: Query, found: Found) -> Markup:
    """What to do where nothing is found."""
    asked = _asked(query)
    if not asked and not query.offset:
        return tag("p", "Nothing is published yet.", class_="soft")
    if found.total:
        back = tag("a", "Back to the first", href=_address(replace(query, offset=0)))
        return join(tag("p", "There are no more environments."), tag("p", back))
    ways = [tag("a", "Show all environments", href="./")]
    if query.words and len(asked.keys() - {"sort"}) > 1:
        only = Query(words=query.words, order=query.order)
        ways.append(tag("a", f"Search “{query.words[:60]}” without filters", href=_address(only)))
    words = f"Nothing fits “{query.words[:60]}”" if query.words else "Nothing fits"
    more = (
        " with these filters."
        if asked.keys() - {"q", "sort"}
        else ". Every word must be in a name, description or tag."
    )
    return join(tag("p", words + more), tag("ul", [tag("li", way) for way in ways]))


def _card(listing: Listing) -> Markup:
    name, facts = str(listing.release.package), listing.facts
    return tag(
        "li",
        tag(
            "div",
            tag("a", name, href=f"packages/{name}", class_="name"),
            tag("span", str(listing.release.version)),
            checks_mark(listing),
            audit_mark(listing),
            class_="row",
        ),
        tag("p", facts.description or "No description."),
        tag("div", signals(listing), [tag_link(word) for word in facts.tags], class_="row"),
    )
