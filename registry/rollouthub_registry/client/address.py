"""The URL of a registry (`https://…`, `http://…` or `file:///…`), normalised and without secrets."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rollouthub.errors import ConfigError, CredentialError
from rollouthub.http.loopback import is_local_host

_PORTS = {"http": 80, "https": 443}
_LONGEST = 2000


def registry_url(text: str) -> str:
    """Check a registry's URL and normalise it.

    Raises:
        ConfigError: the text cannot be a registry's URL, or holds a password.
    """
    if not text.strip():
        raise ConfigError("the URL of the registry is empty; write https://HOST or file:///FOLDER")
    said = _without_secrets(text)
    if len(text) > _LONGEST or not text.isprintable() or " " in text or "\\" in text:
        raise ConfigError(f"{said} is no URL of a registry; write https://HOST or file:///FOLDER")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        # Its reason may repeat a password.
        raise ConfigError(f"{said} is no URL of a registry: its host or port does not hold; check it") from None
    if "@" in parts.netloc:
        # Neither repeated nor kept: a URL is written into locks, records and logs.
        raise ConfigError(
            f"the URL of the registry at {parts.netloc.rpartition('@')[2]!r} holds a user or a password; leave it out "
            "and run `hub login URL`"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"{said} is no URL of a registry: it has a query or a fragment; leave out what follows")
    if parts.scheme == "file":
        return _file_url(text)
    if parts.scheme not in _PORTS:
        raise ConfigError(
            f"{said} is no URL of a registry: it begins with none of https:// http:// file://{_hint(text)}"
        )
    if not host:
        raise ConfigError(f"{said} is no URL of a registry: it names no host")
    if not text.isascii():
        raise ConfigError(f"{said} is no URL of a registry: write letters beyond ASCII as xn--… or %…")
    named = f"[{host}]" if ":" in host else host
    at = "" if port is None or port == _PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{named}{at}{parts.path.rstrip('/')}"


def folder_of(url: str) -> Path | None:
    """The folder that a `file://` URL names; None for any other URL."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def check_carries_token(url: str) -> None:
    """Check that a token may be sent to a URL: over TLS, or within this machine.

    Raises:
        CredentialError: the token would travel unencrypted.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_local_host(parts.hostname or ""):
        raise CredentialError(f"a token is not sent to {url}: it would travel unencrypted; use https://")


def _without_secrets(text: str) -> str:
    """A text that may be a URL, without its login and query, for messages."""
    _, at, rest = text.rpartition("@")
    return ascii(f"{'...@' if at else ''}{re.split('[?#]', rest[:200])[0]}")


def _hint(text: str) -> str:
    if "@" in text or urlsplit(text).scheme:
        return ""
    host = "" if text.startswith(("/", ".", "~")) else f"; a host is written https://{text}"
    return f"{host}; a folder is written {Path(text).absolute().as_uri()}"


def _file_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError(f"{text!r} names no folder of this machine; write file:///FOLDER, with its whole path")
    folder = Path(unquote(parts.path))
    if ".." in folder.parts or "\0" in str(folder):
        raise ConfigError(f"{text!r} names no folder; write its path without `..`")
    return folder.as_uri()
