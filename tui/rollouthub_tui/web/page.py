"""The files for the browser: the app's page, and the terminal from textual-serve. Nothing is loaded from elsewhere."""

from dataclasses import dataclass
from importlib.resources import files

from rollouthub.views.markup import Markup, join, tag

_FILES = {
    "textual.js": ("js/textual.js", "text/javascript"),
    "xterm.css": ("css/xterm.css", "text/css"),
    "font.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
    "font-italic.ttf": ("fonts/RobotoMono-Italic-VariableFont_wght.ttf", "font/ttf"),
}
_STYLE = """
@font-face { font-family: "Roboto Mono"; src: url("font.ttf"); }
@font-face { font-family: "Roboto Mono"; font-style: italic; src: url("font-italic.ttf"); }
html, body { margin: 0; height: 100%; background: #11151c; color: #d8dee9; font-family: "Roboto Mono", monospace; }
.textual-terminal { position: absolute; inset: 0; }
.said { position: absolute; inset: 0; display: flex; align-items: center; justify-content: center; }
.said p { padding: 2em; background: #212835; }
.said a { color: #6ea8fe; }
.closed, body.-first-byte .waiting { display: none; }
body.-closed .closed { display: flex; z-index: 10; background: #11151c; }
"""
_SCRIPT = """
// Keys go to the terminal as soon as it shows something, not only after a click.
new MutationObserver((changes, observer) => {
  if (document.body.classList.contains("-first-byte")) {
    observer.disconnect();
    document.querySelector(".xterm-helper-textarea")?.focus();
  }
}).observe(document.documentElement, {subtree: true, attributeFilter: ["class"]});
"""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that the page loads."""

    body: bytes
    mime_type: str


def assets() -> dict[str, Asset]:
    """The files by name; no others are served."""
    folder = files("textual_serve") / "static"
    found = {name: Asset((folder / path).read_bytes(), mime_type) for name, (path, mime_type) in _FILES.items()}
    own = {"page.css": Asset(_STYLE.encode(), "text/css"), "page.js": Asset(_SCRIPT.encode(), "text/javascript")}
    return {**found, **own}


def page(title: str, socket: str) -> str:
    """The HTML page with the terminal."""
    styles = (tag("link", rel="stylesheet", href=name) for name in ("xterm.css", "page.css"))
    scripts = (tag("script", src=name) for name in ("textual.js", "page.js"))
    over = ("This session is over, or too many are open. ", tag("a", "Begin again", href=""))
    return _document(
        tag("head", _head(title), styles, scripts),
        tag(
            "body",
            tag("div", tag("p", "hub watch begins …"), class_="said waiting"),
            tag("div", tag("p", over), class_="said closed"),
            tag("div", class_="textual-terminal", data_session_websocket_url=socket, data_font_size="15"),
        ),
    )


def arrival(place: str) -> str:
    """A page of this server that redirects to another address, so that the browser sends the cookie with it."""
    return _document(tag("head", _head("hub watch"), tag("meta", http_equiv="refresh", content=f"0;url={place}")))


def _document(*parts: Markup) -> str:
    return f"<!DOCTYPE html>\n{tag('html', *parts, lang='en')}\n"


def _head(title: str) -> Markup:
    return join(tag("meta", charset="utf-8"), tag("title", title), tag("link", rel="icon", href="data:,"))
