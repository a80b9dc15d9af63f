"""The address of a model server: validates and normalises base URLs."""

from yarl import URL

from rollouthub.errors import ConfigError
from rollouthub.http.loopback import is_local_host


def normal_base_url(given: str, *, is_wire: bool = True) -> str:
    """A base URL in normal form: no trailing slash, and `/v1` if it has no path.

    A URL with a path is otherwise unchanged, since providers serve the OpenAI API under many paths. So is the URL of a
    server with another API (`is_wire` is false), whose client adds its own path.

    Raises:
        ConfigError: the URL is not http(s) with a host, or has a password, a query or a fragment.
    """
    text = given.strip()
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise ConfigError(f"base URL {_shown(text)!r} is not a URL: {error}") from None
    if url.user is not None or url.password is not None:
        raise ConfigError("the base URL carries a user or password; base URLs are recorded, give the key separately")
    if url.scheme not in ("http", "https"):
        raise ConfigError(f"base URL {text!r} does not begin with http:// or https://")
    if not url.host or port == 0:
        raise ConfigError(f"base URL {text!r} names no host; write it like http://127.0.0.1:8000/v1")
    if url.query_string or url.fragment:
        raise ConfigError(f"base URL {str(url.origin())!r} is followed by a query or fragment; leave it out")
    path = url.path.rstrip("/")
    if not is_wire:
        return str(url.with_path(path)).rstrip("/")
    path = path.removesuffix("/chat/completions").rstrip("/")
    return str(url.with_path(path or "/v1")).rstrip("/")


def is_loopback(base_url: str) -> bool:
    """Whether the server's host is this machine's loopback address."""
    return is_local_host(URL(base_url).host or "")  # a name such as 127.0.0.1.example.org is none


def _shown(text: str) -> str:
    """A URL that could not be parsed, without everything up to the last `@`, which may hold a password."""
    return text.rpartition("@")[2]
