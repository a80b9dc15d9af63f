"""`RewardServer`: requests to a reward model's HTTP server, bounded in time and size, and retried."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio import to_thread

from rollouthub.errors import VerifierError, raise_first_error
from rollouthub.event_loop import LARGE_BYTES, has_marks
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.loopback import is_local_host
from rollouthub.http.no_answer import AnswerTooLarge, NoAnswer
from rollouthub.http.whole_answer import WholeAnswer

MOST_REPLY_BYTES = 16 * 2**20
"""Most bytes of one answer."""
MOST_VALUES = 400_000
"""Most JSON values of one answer, enough for two numbers of each of 128 Ki tokens. To decode them holds Python's lock,
also in a thread.
"""
_TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_SECONDS = 0.5
AnswerT = TypeVar("AnswerT")


class _TransientFailure(Exception):
    """A failure after which a retry may succeed."""


async def ask_all(asks: Iterable[Callable[[HttpPool], Awaitable[AnswerT]]], concurrency: int) -> list[AnswerT]:
    """Make requests over one pool of connections, up to `concurrency` at once; returns their answers in order.

    The first failure cancels the others, and is raised.
    """
    found: dict[int, AnswerT] = {}
    limiter = anyio.CapacityLimiter(concurrency)

    async def answer(place: int, ask: Callable[[HttpPool], Awaitable[AnswerT]]) -> None:
        async with limiter:
            found[place] = await ask(pool)

    async with raise_first_error(), open_pool() as pool, anyio.create_task_group() as requests:
        for place, ask in enumerate(asks):
            requests.start_soon(answer, place, ask)
    return [found[place] for place in sorted(found)]


@dataclass(frozen=True)
class RewardServer:
    """The server of a reward model: its address, and how often and how long it is asked."""

    url: str
    token: str | None = field(repr=False)
    timeout_seconds: float
    tries: int

    def check(self) -> None:
        """Check the settings.

        Raises:
            ValueError: the address is invalid, has a password, or would send the token in the clear; or `tries` is 0.
        """
        parts = urlsplit(self.url)
        if parts.username is not None:
            raise ValueError(
                "the address of a reward model names no user or password, because errors show it; give token=… instead"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a reward model; write it like http://127.0.0.1:8000")
        if self.token and parts.scheme == "http" and not is_local_host(parts.hostname):
            raise ValueError(f"the token would go to {self.url} in the clear; give the server's https:// address")
        if self.tries < 1:
            raise ValueError(f"tries={self.tries}: it takes at least one")

    def at(self, route: str) -> str:
        """The server and its route, as errors name them."""
        return f"the reward model at {self.url.rstrip('/')}/{route}"

    async def post(self, pool: HttpPool, route: str, body: Mapping[str, Any]) -> object:
        """Send a request; returns the decoded answer.

        Raises:
            VerifierError: the server refuses the request, its answer is too large, holds too many values or is no JSON,
                or every try failed.
        """
        problem = ""
        for number in range(self.tries):
            if number:
                await anyio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (number - 1))
            try:
                return await self._answer(pool, route, body)
            except (NoAnswer, _TransientFailure) as error:
                problem = str(error)
        raise VerifierError(f"{self.at(route)} gave no reward in {self.tries} tries; the last: {problem}")

    async def _answer(self, pool: HttpPool, route: str, body: Mapping[str, Any]) -> object:
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        url, sent = f"{self.url.rstrip('/')}/{route}", msgspec.json.encode(body)
        try:
            answer = await pool.exchange(
                "POST", url, sent, headers, seconds=self.timeout_seconds, most_bytes=MOST_REPLY_BYTES
            )
        except AnswerTooLarge as error:
            raise VerifierError(f"{self.at(route)}: {error}", retryable=False) from None
        # Records show these words, and a server may repeat what it was sent.
        words = answer.words.replace(self.token, "[redacted]") if self.token else answer.words
        if answer.status in _TRIED_AGAIN:
            raise _TransientFailure(words)
        if answer.status != 200:
            raise VerifierError(f"{self.at(route)} refused: {words}", retryable=False)
        try:
            if len(answer.body) <= LARGE_BYTES:
                return answer.json()
            return await to_thread.run_sync(self._decoded, route, answer)
        except ValueError:
            raise VerifierError(f"{self.at(route)} answered what is no JSON: {words}", retryable=False) from None

    def _decoded(self, route: str, answer: WholeAnswer) -> object:
        if has_marks(answer.body, MOST_VALUES):
            raise VerifierError(f"{self.at(route)} answered with more than {MOST_VALUES:,} values", retryable=False)
        return answer.json()
