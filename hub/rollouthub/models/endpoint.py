"""`Endpoint`: a model served over the OpenAI API, and the check that the server has it."""

import difflib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec import Struct
from yarl import URL

from rollouthub.errors import ConfigError, CredentialError, UsageError
from rollouthub.models.retry import TryFailed

logger = logging.getLogger(__name__)

Dialect = Literal["vllm", "sglang", "openai"]
"""Whose request fields a server takes beside the OpenAI API's own."""


@dataclass(frozen=True)
class Endpoint:
    """A served model: the server's address, the model's name there, and the key."""

    served_name: str
    base_url: str
    key_name: str
    """The name of the variable that holds the key, for messages."""
    api_key: str | None = field(default=None, repr=False)
    dialect: Dialect = "vllm"
    """vLLM and SGLang are asked for token ids and log-probabilities, and get reasoning back; `openai` gets no further
    fields, because strict servers reject them.
    """

    @property
    def gives_ids(self) -> bool:
        """Whether the server takes request fields for token ids, log-probabilities and reasoning."""
        return self.dialect != "openai"

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own service."""
        host = URL(self.base_url).host or ""
        return host == "openai.com" or host.endswith(".openai.com")


class _Listed(Struct):
    id: str


class _List(Struct):
    data: list[_Listed]


async def check_endpoint(
    name: str, endpoint: Endpoint, ask: Callable[[float], Awaitable[tuple[int, bytes]]], timeout_seconds: float
) -> None:
    """Request a server's list of models and check that the model is on it. `ask(seconds)` returns status and body.

    Raises:
        UsageError: the server cannot be reached.
        CredentialError: the server refuses the key.
        ConfigError: the server does not serve the model.
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
    if served and not _is_served(endpoint, served):
        close = difflib.get_close_matches(endpoint.served_name, served, n=3, cutoff=0.4)
        meant = f"; did you mean {' or '.join(repr(name) for name in close)}?" if close else "."
        listing = f" It serves: {', '.join(sorted(served)[:12])}{' …' if len(served) > 12 else ''}."
        raise ConfigError(f"{endpoint.base_url} serves no model {endpoint.served_name!r}{meant}{listing}")


def _is_served(endpoint: Endpoint, served: tuple[str, ...]) -> bool:
    """Whether a model is on a server's list.

    SGLang 0.5.23 lists an adapter by its own name, and takes `MODEL:ADAPTER` for it (`_parse_model_parameter`,
    sglang/srt/entrypoints/openai/serving_base.py). Once weights were loaded from a folder, it lists that path as the
    model (`_update_model_path_info`, sglang/srt/managers/tokenizer_manager.py), and answers under any name.
    """
    name = endpoint.served_name
    if name in served or endpoint.dialect != "sglang":
        return name in served
    model, _, adapter = name.rpartition(":")
    if model and adapter in served:
        name = model
    paths = [each for each in served if each.startswith("/")]
    if name not in served and paths:
        logger.warning("%s lists its model as %s, and is asked for it as %s", endpoint.base_url, paths[0], name)
    return name in served or bool(paths)


def _served(body: bytes) -> tuple[str, ...]:
    """The names in a list of models; empty if the body is not such a list, which servers may omit."""
    try:
        return tuple(listed.id for listed in msgspec.json.decode(body, type=_List).data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
