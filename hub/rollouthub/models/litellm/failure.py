"""Converts litellm's exceptions to the `TryFailed` that the direct lane would raise."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx  # brought by litellm; this module is only imported where litellm is
import openai
from multidict import CIMultiDict

from rollouthub.models.bounded_body import OverlongBody
from rollouthub.models.direct.http_refusal import bad_answer, refusal
from rollouthub.models.retry import TryFailed

# litellm's own words before those of the provider.
_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w*(?:Error|Timeout|Exception)\b(?:\s-|:)\s*)+|^\w+Exception - ")
_UNSUPPORTED = re.compile(r"does not support parameters: (\[[^][]*\])")
_ADVICE = "To drop "
_LONGEST = 100_000
"""Most characters of a message that are read."""
_BREAKS = (httpx.RequestError, openai.APIConnectionError, OSError)


def failed_try(litellm: Any, error: Exception, key_name: str, *, sent_key: bool, left_seconds: float) -> TryFailed:
    """The `TryFailed` for an exception of litellm."""
    chain = tuple(_chain(error))
    if isinstance(error, litellm.UnsupportedParamsError):
        return TryFailed(unsupported(error), status=400, is_retryable=False)
    if overlong := next((link for link in chain if isinstance(link, OverlongBody)), None):
        return TryFailed(str(overlong), status=200, is_retryable=False)
    if missing := next((link for link in chain if isinstance(link, ImportError)), None):
        return TryFailed(f"the provider needs a package more: {missing}", is_retryable=False)
    if told := next((link for link in chain if type(link) is Exception and hasattr(link, "status_code")), None):
        # An error in the body of a good status, as litellm raises it.
        words = str(getattr(told, "message", told))
        wrote = {"code": _status(told), "message": words}
        return bad_answer(f"the answer has no choices: {words}", wrote, key_name, sent_key=sent_key)
    headers: Any = getattr(error, "litellm_response_headers", None)
    status, body = _answered(chain)
    if status is None and headers is not None:
        status = _status(error)
    if status is not None and status != 200:
        if not body:
            body = _words(error).encode()
        failed = refusal(status, _folded(headers), body, key_name, sent_key=sent_key)
        if isinstance(error, litellm.ContextWindowExceededError):
            failed.is_context_limit, failed.is_retryable = True, False
        return failed
    if status == 200:
        return TryFailed(f"the answer is not a chat completion ({_words(error)})", status=200)
    if isinstance(error, litellm.Timeout) or any(isinstance(link, httpx.TimeoutException) for link in chain):
        return TryFailed(f"no answer within the {left_seconds:.3g} s the call had left")
    if broken := [
        link for link in chain if isinstance(link, _BREAKS) and not type(link).__module__.startswith("litellm")
    ]:
        return TryFailed(f"the connection failed: {str(broken[-1]) or type(broken[-1]).__name__}")
    status = _status(error)
    if status is not None and status < 500:
        # Never sent: litellm itself refuses the request, or says what lacks.
        is_full = isinstance(error, litellm.ContextWindowExceededError)
        return TryFailed(_words(error), status=status, is_retryable=status in (408, 429), is_context_limit=is_full)
    return TryFailed(f"the answer is not a chat completion ({_words(error)})", status=200)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and its causes and contexts."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _answered(chain: tuple[BaseException, ...]) -> tuple[int | None, bytes]:
    """Status and body of the HTTP answer behind an exception. litellm's own exceptions are skipped: their responses
    are made up and have no body.
    """
    for link in chain:
        response = getattr(link, "response", None)
        if isinstance(response, httpx.Response) and not type(link).__module__.startswith("litellm"):
            try:
                return response.status_code, response.content
            except httpx.ResponseNotRead:
                return response.status_code, b""
    return None, b""


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _folded(headers: Any) -> Mapping[str, str]:
    """Headers with case-insensitive names."""
    return CIMultiDict(headers.items()) if headers is not None else {}


def _words(error: Exception) -> str:
    """The message of the provider or of litellm, without litellm's prefixes and traceback."""
    words = _PREFIX.sub("", str(getattr(error, "message", None) or error)[:_LONGEST])
    return words.partition("Traceback (most recent call last)")[0].strip() or type(error).__name__


def _without_advice(words: str) -> str:
    before, advice, _ = words.partition(_ADVICE)
    return before.rstrip().rstrip(".;") if advice else words


def unsupported(error: Exception) -> str:
    """litellm's message about a parameter that a provider or model does not accept, without its advice on litellm
    settings.
    """
    words = _words(error)
    named = _UNSUPPORTED.search(words)
    what = f"the provider does not take {named[1].strip('[]')}" if named is not None else _without_advice(words)
    seed = " (a run's seed is the model's, too)" if named is not None and "'seed'" in named[1] else ""
    return f"{what}; leave it out of the sampling{seed}"
