"""Retries of model calls: classifies failed tries, back-off with jitter, and `Retry-After`."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import anyio

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.messages import ReplyStream
from rollouthub.text import one_line

logger = logging.getLogger(__name__)

_MAX_MESSAGE = 500
_TIMER_SECONDS = 0.002
"""By how much a timer of the event loop may be early."""


class StreamCut(ModelError):
    """A streamed answer was interrupted after pieces of it were passed on, which a second try could not take back.

    The call itself is not retried, but the error is marked retryable: another attempt at the episode may succeed.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message, status=status, retryable=True, retry_after_seconds=retry_after_seconds)


def final(error: ModelError, stream: ReplyStream | None) -> ModelError | None:
    """The error to raise at once after a failed try whose answer had begun; None if the call may be retried."""
    if stream is None or not stream.has_begun:
        return None
    if not error.retryable or isinstance(error, StreamCut):
        return error
    return StreamCut(
        f"{error}; the answer had begun, so it is not tried again",
        status=error.status,
        retry_after_seconds=error.retry_after_seconds,
    )


class TryFailed(Exception):
    """One try of a call failed; the caller decides whether to retry."""

    def __init__(
        self,
        problem: str,
        *,
        status: int | None = None,
        is_retryable: bool = True,
        retry_after_seconds: float | None = None,
        is_context_limit: bool = False,
    ) -> None:
        super().__init__(problem)
        self.status, self.is_retryable, self.is_context_limit = status, is_retryable, is_context_limit
        self.retry_after_seconds = retry_after_seconds

    def as_error(self, owner: str, tries: int, redact: Callable[[str], str]) -> ModelError:
        """The error for the model's caller, after `tries` tries."""
        counted = f" (after {tries} tries)" if tries > 1 else ""
        text = f"{owner}: {trimmed(redact(str(self)))}{counted}"
        if self.is_context_limit:
            return ContextLimitError(text)
        return ModelError(
            text, status=self.status, retryable=self.is_retryable, retry_after_seconds=self.retry_after_seconds
        )


@dataclass(frozen=True)
class Backoff:
    """Exponential back-off with full jitter: a wait is drawn between 0 and a ceiling that doubles with each try."""

    base_seconds: float = 0.5
    """The first ceiling in seconds."""
    cap_seconds: float = 20.0
    """The highest ceiling in seconds."""
    jitter: Callable[[], float] = random.random
    """Returns a random number in [0, 1)."""

    def wait_seconds(self, failures: int, retry_after_seconds: float | None) -> float:
        """Seconds to wait after this many failed tries; never less than the server requested."""
        if retry_after_seconds is not None:
            # A little apart from everyone else who was told the same.
            return retry_after_seconds + self.jitter() * self.base_seconds
        return self.jitter() * min(self.cap_seconds, self.base_seconds * 2 ** (failures - 1))


@dataclass(frozen=True)
class CallRetries:
    """What follows a failed try of a call, in every lane that makes its own tries."""

    owner: str
    """The model and its address, for messages."""
    max_tries: int
    backoff: Backoff
    redact: Callable[[str], str]
    """Masks secrets in a server's words."""
    keeps_cause: bool = True
    """Whether an error names what it was made of; not where that holds the request, and perhaps its key."""

    async def wait(self, failed: TryFailed, failures: int, deadline: float, stream: ReplyStream | None = None) -> None:
        """Wait before the next try, `failures` tries having failed; `deadline` is a time of the event loop.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: it is not worth another try, there are none left, or no time; or its answer had begun.
        """
        cause = failed.__cause__ if self.keeps_cause else None
        error = failed.as_error(self.owner, failures, self.redact)
        if (last := final(error, stream)) is not None:
            raise last from cause
        if not failed.is_retryable or failures >= self.max_tries:
            raise error from cause
        seconds = self.backoff.wait_seconds(failures, failed.retry_after_seconds)
        if anyio.current_time() + seconds + _TIMER_SECONDS >= deadline:
            raise error from cause
        logger.debug("%s; trying again in %.2f s", error, seconds)
        await anyio.sleep(seconds)


def parse_retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds in a `Retry-After`, given as a number or an HTTP date (RFC 9110, 10.2.3); None if it is neither."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now()
        except ValueError:
            return None
        seconds = max(seconds, 0.0)
    return seconds if 0 <= seconds < float("inf") else None


def trimmed(text: str) -> str:
    """A server's message, shortened for an error message."""
    return one_line(text, _MAX_MESSAGE)
