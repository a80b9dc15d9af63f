"""What every page has: the head, the way back, the help on keys."""

from collections.abc import Sequence

from rollouthub.text import plain_name
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.web_assets import SCRIPT, SCRIPT_FILE, STATIC_POLICY, STYLE, STYLE_FILE

Crumb = tuple[str, str | None]
"""A page on the way to this one, with its address; None for this page itself."""
_KEYS = (
    ("j k", "next and previous row, or turn"),
    ("g G", "first and last"),
    ("enter", "open the row"),
    ("/", "to the filter"),
    ("[ ]", "previous and next rollout of the list"),
    ("z", "fold or unfold all"),
    ("# c", "tags and a comment of the rollout"),
    ("*", "star it"),
    ("v", "reviewed, and on to the next"),
    ("V", "what needs a review"),
    ("u", "up: to the list, to the runs"),
    ("?", "this help"),
    ("esc", "leave a field, close the help, go up"),
)


def page(
    title: str,
    *content: Markup | None,
    links: Links,
    crumbs: Sequence[Crumb],
    kind: str,
    events: str | None = None,
    again: bool = False,
) -> str:
    """A whole page. `kind` names it for the style and the script; `events` is the address of its live events.
    `again` has the browser ask for the page again at once, because it is not complete.

    A page that is a file has the style sheet and the script in itself.
    """
    above = next((address for _, address in reversed(crumbs) if address is not None), None)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        _policy_and_style() if links.is_static else _linked(links),
        tag("link", rel="icon", href="data:,"),
        tag("meta", http_equiv="refresh", content="1") if again else None,
        tag("title", f"{title} · rollouthub"),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#main", class_="skip"),
        _top(crumbs),
        tag("main", *content, id="main", tabindex="-1"),
        _help(),
        tag("script", Markup(SCRIPT)) if links.is_static else None,
        data_page=kind,
        data_static=links.is_static,
        data_events=events,
        data_up=above,
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _linked(links: Links) -> list[Markup]:
    return [
        tag("link", rel="stylesheet", href=links.asset(STYLE_FILE)),
        tag("script", src=links.asset(SCRIPT_FILE), defer=True),
    ]


def _policy_and_style() -> list[Markup]:
    return [
        tag("meta", http_equiv="Content-Security-Policy", content=STATIC_POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("style", Markup(STYLE)),
    ]


def _top(crumbs: Sequence[Crumb]) -> Markup:
    items = [
        tag("li", plain_name(name) if address is None else tag("a", plain_name(name), href=address))
        for name, address in crumbs
    ]
    way = tag("nav", tag("ol", items), aria_label="Breadcrumb", class_="way")
    button = tag("button", "?", type="button", id="keys", aria_label="Keys", title="Keys (?)", hidden=True)
    return tag("header", way, button, class_="top")


def _help() -> Markup:
    rows = [join(tag("dt", [tag("kbd", key) for key in keys.split()]), tag("dd", meaning)) for keys, meaning in _KEYS]
    close = tag("form", tag("button", "Close"), method="dialog")
    return tag(
        "dialog", tag("h2", "Keys", id="help-title"), tag("dl", rows), close, id="help", aria_labelledby="help-title"
    )


def message_page(links: Links, title: str, words: str, *, hint: str = "") -> str:
    """A page that only says something, such as why there is nothing to show."""
    crumbs: list[Crumb] = [("runs", links.runs()), (title, None)]
    parts = [tag("h1", title), tag("pre", words, class_="said")]
    if hint:
        parts.append(tag("p", hint, class_="soft"))
    return page(title, tag("section", parts), links=links, crumbs=crumbs, kind="message")
