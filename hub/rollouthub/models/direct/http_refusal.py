"""Classifies HTTP error answers of model servers."""

import re
from collections.abc import Mapping

import msgspec

from rollouthub.models.direct.completion import error_words
from rollouthub.models.retry import TryFailed, parse_retry_after

_RETRYABLE = frozenset({408, 409, 425, 429})
# OpenAI's code, vLLM's wordings since 0.5, SGLang's and llama.cpp's.
_CONTEXT = re.compile(
    r"context_length_exceeded|maximum\s+context\s+length|maximum\s+model\s+length|longer than the model's context"
    r"|exceeds? the (available |maximum |model's )*context|context (window|size) exceeded|prompt is too long"
    # SGLang's where a prompt is longer than its cache (validate_input_length and the scheduler of 0.5.23).
    r"|exceeds the (maximum allowed length|KV memory budget)"
    # vLLM's arithmetic where a prompt fills the context to its last token; nobody here asks for none.
    r"|max_tokens must be at least 1, got",
    re.IGNORECASE,
)

# vLLM's words where it was started without a parser for tool calls.
_NO_TOOL_PARSER = re.compile(r"enable-auto-tool-choice|tool-call-parser")
_NO_TOOLS = (
    " [start the server with --enable-auto-tool-choice --tool-call-parser NAME; "
    "tasks that need no tools can be played without: -a single_turn]"
)


def refusal(status: int, headers: Mapping[str, str], body: bytes, key_name: str, *, sent_key: bool) -> TryFailed:
    """The `TryFailed` for an HTTP error answer; names of headers are in lower case."""
    words = _words(body)
    said = f": {words}" if words else ""
    if status in (401, 403):
        hint = f"check the key in {key_name}" if sent_key else f"no key was sent; set {key_name}"
        return TryFailed(f"the server refused access, HTTP {status}{said} [{hint}]", status=status, is_retryable=False)
    if status in (400, 413, 422) and _CONTEXT.search(words):
        return TryFailed(f"HTTP {status}{said}", status=status, is_retryable=False, is_context_limit=True)
    if status == 429 and "insufficient_quota" in words:
        return TryFailed(f"HTTP 429{said}", status=429, is_retryable=False)
    if status in _RETRYABLE or status >= 500:
        after = parse_retry_after(headers.get("retry-after"))
        return TryFailed(f"HTTP {status}{said}", status=status, retry_after_seconds=after)
    if 300 <= status < 400:
        # Not followed: a redirect could carry the key to another host.
        return TryFailed(
            f"HTTP {status}, a redirect to {headers.get('location', 'nowhere')!r}; give the final base URL",
            status=status,
            is_retryable=False,
        )
    if status == 400 and _NO_TOOL_PARSER.search(words):
        said += _NO_TOOLS
    if status == 404:
        said += " [check the model's name and that the base URL ends where /chat/completions begins]"
    return TryFailed(f"HTTP {status}{said}", status=status, is_retryable=False)


def bad_answer(problem: str, sent_error: object, key_name: str, *, sent_key: bool) -> TryFailed:
    """The `TryFailed` for an invalid answer of status 200, in which routers of several providers send errors.

    A status code in the error object is treated as the HTTP status, except 422, which litellm writes where there is
    none.
    """
    code: object = sent_error.get("code") if isinstance(sent_error, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(code, int) and 400 <= code < 600 and code != 422:
        return refusal(code, {}, msgspec.json.encode({"error": sent_error}), key_name, sent_key=sent_key)
    return TryFailed(problem, status=200)


def _words(body: bytes) -> str:
    """The error message in a body, in any of the usual formats."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:300].decode(errors="replace").strip()
    if not isinstance(decoded, dict):
        return str(decoded)[:2000]
    error = decoded.get("error", decoded)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    words = error_words(error)  # pyright: ignore[reportUnknownArgumentType]
    code = error.get("code") if isinstance(error, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{words} ({code})" if isinstance(code, str) and code not in words else words
