"""The files for the browser: the app's page, and the terminal from textual-serve. Nothing is loaded from elsewhere."""

import html
from dataclasses import dataclass
from importlib.resources import files

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
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="xterm.css">
<link rel="stylesheet" href="page.css">
<script src="textual.js"></script>
<script src="page.js"></script>
</head>
<body>
<div class="said waiting"><p>hub watch begins …</p></div>
<div class="said closed"><p>This session is over, or too many are open. <a href="">Begin again</a></p></div>
<div class="textual-terminal" data-session-websocket-url="{html.escape(socket)}" data-font-size="15"></div>
</body>
</html>
"""


def arrival(place: str) -> str:
    """A page of this server that redirects to another address, so that the browser sends the cookie with it."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>hub watch</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0;url={html.escape(place)}"></head></html>
"""
