"""Serves the library's pages on a port of this machine, with a policy that lets no script run but their own."""

import base64
import hashlib
import mimetypes
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_INLINE = re.compile(rb"<script(?![^>]*\bsrc\b)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_POLICY = (
    "default-src 'self'",
    "img-src 'self' data:",
    "style-src 'self' 'unsafe-inline'",
    "object-src 'none'",
    "frame-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "sandbox allow-scripts allow-same-origin allow-forms",
)


def policy_of(html: bytes) -> str:
    """The content security policy of a page: scripts are its own, by address or by digest.

    What somebody types is then no script, wherever the page writes it: no handler in an attribute, no `javascript:`
    address, no new script element runs.
    """
    scripts = [line_ends(found) for found in _INLINE.findall(html)]
    digests = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts]
    return "; ".join((*_POLICY, " ".join(("script-src 'self'", *(f"'sha256-{digest}'" for digest in digests)))))


def line_ends(text: bytes) -> bytes:
    """A text as an HTML parser gives it: each end of a line is one character."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class PageServer(ThreadingHTTPServer):
    """Serves the files of a folder, read-only."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder = folder.resolve()
        self._read: dict[str, tuple[bytes, dict[str, str]]] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """The address of the folder."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def file(self, path: str) -> "tuple[bytes, dict[str, str]] | None":
        """The content of a file and its headers; None where there is none."""
        if path in self._read:
            return self._read[path]
        file = (self.folder / unquote(path).lstrip("/")).resolve()
        if not file.is_relative_to(self.folder) or not file.is_file():
            return None
        content = file.read_bytes()
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        headers = {"Content-Length": str(len(content)), "X-Content-Type-Options": "nosniff"}
        if kind == "text/html":
            headers |= {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
            headers["Content-Security-Policy"] = policy_of(content)
        else:
            headers |= {"Content-Type": kind, "Cache-Control": "max-age=86400, immutable"}
        self._read[path] = content, headers
        return content, headers


class _Answers(BaseHTTPRequestHandler):
    """Answers one browser's requests."""

    protocol_version = "HTTP/1.1"
    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride]  # it is made by nothing else

    def do_GET(self) -> None:
        """Send a file."""
        found = self.server.file(urlsplit(self.path).path)
        content, headers = found or (b"", {"Content-Length": "0"})
        self.send_response(200 if found else 404)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
