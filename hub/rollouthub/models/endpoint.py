"""`Endpoint`: a served model of the OpenAI wire, and the one request that finds out whether it is there."""

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct
from yarl import URL

from rollouthub.errors import ConfigError, CredentialError, UsageError
from rollouthub.models.retry import TryFailed


@dataclass(frozen=True)
class Endpoint:
    """A served model: where, under which name and with which key."""

    served_name: str
    base_url: str
    key_name: str
    """The variable that holds the key, for messages."""
    api_key: str | None = field(default=None, repr=False)
    is_vllm: bool = True
    """Whether to ask for token ids and logprobs and to send reasoning back; strict servers refuse unknown fields."""

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service."""
        host = URL(self.base_url).host or ""
        return host == "openai.com" or host.endswith(".openai.com")


class _Listed(Struct):
    id: str


class _List(Struct):
    data: list[_Listed]


async def check_endpoint(
    name: str, endpoint: Endpoint, ask: Callable[[float], Awaitable[tuple[int, bytes]]], timeout_seconds: float
) -> None:
    """Ask a model's server for its list of models; `ask` gives status and body within a number of seconds.

    Raises:
        UsageError: the server cannot be reached.
        CredentialError: it refuses the key.
        ConfigError: it does not serve the model.
    """
    try:
        status, body = await ask(timeout_seconds)
    except TryFailed as error:
        raise UsageError(
            f"the server of {name!r} cannot be reached at {endpoint.base_url}: {error}\n"
            "Check that it runs, that host and port are right, and that no proxy or firewall is between."
        ) from error.__cause__
    if status in (401, 403):
        hint = f"check the key in {endpoint.key_name}" if endpoint.api_key else f"set {endpoint.key_name}"
        raise CredentialError(f"{endpoint.base_url} refuses access to {name!r} (HTTP {status}): {hint}")
    if 300 <= status < 400:
        raise ConfigError(f"{endpoint.base_url} answers with a redirect (HTTP {status}); give the final base URL")
    if status == 200 and body.lstrip()[:1] == b"<":
        raise ConfigError(
            f"{endpoint.base_url} answers with a web page, not as a model server does; "
            "check the port, and that the base URL ends where /chat/completions begins"
        )
    served = _served(body) if status == 200 else ()
    if served and endpoint.served_name not in served:
        close = difflib.get_close_matches(endpoint.served_name, served, n=3, cutoff=0.4)
        meant = f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
        listing = f" It serves: {', '.join(sorted(served)[:12])}{' …' if len(served) > 12 else ''}."
        raise ConfigError(f"{endpoint.base_url} serves no model {endpoint.served_name!r}{meant}{listing}")


def _served(body: bytes) -> tuple[str, ...]:
    """The names a list of models has; none where it is no such list, which any server may leave out."""
    try:
        return tuple(listed.id for listed in msgspec.json.decode(body, type=_List).data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
