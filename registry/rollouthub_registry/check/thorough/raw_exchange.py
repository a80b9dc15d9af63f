"""`RawExchange`: one request and its response as bytes, as the report prints them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

KEPT_BYTES = 256 * 2**10
_TOLD = 1500


@dataclass(frozen=True)
class RawExchange:
    """One request and its response."""

    where: str
    """What was requested and at which access point, in words."""
    sent: str
    status: int | None = None
    """HTTP status; None if there was no answer."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Response headers by name in lower case."""
    body: bytes = b""
    """The first `KEPT_BYTES` bytes of the response's body."""
    problem: str | None = None
    """Why there was no answer; None if there was one."""
    is_timed_out: bool = False
    """Whether the wait for the answer was given up."""

    @property
    def message(self) -> dict[str, Any]:
        """The JSON object in the body, or in its last server-sent event; empty if there is none."""
        raw = self.body
        if raw[:1] not in (b"{", b"["):
            data = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
            raw = data[-1] if data else b""
        try:
            found: Any = json.loads(raw)
        except (ValueError, RecursionError):
            return {}
        return cast(dict[str, Any], found) if isinstance(found, dict) else {}

    @property
    def result(self) -> dict[str, Any] | None:
        """The JSON-RPC result; None if there is none."""
        found = self.message.get("result")
        return cast(dict[str, Any], found) if isinstance(found, dict) else None

    @property
    def is_granted(self) -> bool:
        """Whether the request succeeded: in HTTP, in JSON-RPC and, for a tool call, in its result."""
        if self.status is None or self.status >= 300:
            return False
        message = self.message
        if "error" in message:
            return False
        result = self.result
        return not (result is not None and result.get("isError") is True)

    @property
    def words(self) -> str:
        """The text of the tool result or of the JSON-RPC error."""
        result = self.result
        if result is None:
            error: Any = self.message.get("error")
            return str(cast(dict[str, Any], error).get("message", "")) if isinstance(error, dict) else ""
        blocks: Any = result.get("content")
        if not isinstance(blocks, list):
            return ""
        texts = [
            cast(dict[str, Any], block).get("text") for block in cast(list[Any], blocks) if isinstance(block, dict)
        ]
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def answer(self) -> str:
        """The response in a few lines."""
        if self.status is None:
            return self.problem or "no answer"
        head = "".join(f"{name}: {value}\n" for name, value in self.headers.items())
        return shortened(f"HTTP {self.status}\n{head}\n{self.body[: 4 * _TOLD].decode(errors='replace')}")

    def as_json(self, redact: Callable[[str], str]) -> dict[str, Any]:
        """The exchange as a JSON object of the report."""
        return {"where": redact(self.where), "sent": redact(self.sent), "answer": redact(self.answer)}


def shortened(text: str, most: int = _TOLD) -> str:
    """The beginning of a text, and how much was cut."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most:,} more characters"
