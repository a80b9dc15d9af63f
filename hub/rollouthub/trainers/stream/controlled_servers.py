"""Calls all inference servers of one model at once: the wire of `VllmControl` and `SglangControl`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from pydantic import JsonValue
from yarl import URL

from rollouthub.errors import SupplyError
from rollouthub.http.exchange import open_pool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.models.address import normal_base_url

_NOT_FOUND = 404


class ControlledServers:
    """All replicas of one model."""

    def __init__(
        self, system: str, missing: str, base_urls: str | Sequence[str], api_key: str | None, timeout_seconds: float
    ) -> None:
        """`missing` says what to do where a server has not the route; `timeout_seconds` limits each call.

        Raises:
            ConfigError: a URL is invalid.
        """
        given = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
        self.roots = tuple(normal_base_url(url).removesuffix("/v1") for url in given)
        self._system, self._missing, self._seconds = system, missing, timeout_seconds
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def send(
        self,
        route: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        body: Mapping[str, Any] | None = None,
        verb: str = "POST",
        answers_json: bool = True,
        missing: str | None = None,
    ) -> list[JsonValue]:
        """Call every server at once; problems are raised after all have answered. Returns each server's answer, or None
        where it has none in JSON. `missing` says what to do where this route is missing.

        Raises:
            SupplyError: a server refused, or did not answer.
        """
        answers: list[JsonValue] = [None] * len(self.roots)
        problems: list[str] = []
        sent = b"" if body is None else msgspec.json.encode(body)

        async def tell(place: int, root: str) -> None:
            try:
                url = URL(f"{root}/{route}").with_query(query or None)
                answer = await pool.exchange(verb, url, sent, self._headers, seconds=self._seconds)
                if answer.status == _NOT_FOUND and _is_no_route(answer.body):
                    problems.append(f"{root} has no /{route}: {missing or self._missing}")
                elif answer.status >= 400:
                    problems.append(f"{root}/{route} answered {answer.words}")
                elif answer.body and answers_json:
                    answers[place] = answer.json()
            except (NoAnswer, ValueError) as error:
                problems.append(f"{root}/{route}: {error}")

        async with open_pool() as pool, anyio.create_task_group() as calls:
            for place, root in enumerate(self.roots):
                calls.start_soon(tell, place, root)
        if problems:
            raise SupplyError(f"could not steer {self._system}: {'; '.join(problems)}")
        return answers

    async def are_healthy(self) -> list[bool]:
        """Whether each server answers its health check."""
        healthy = [False] * len(self.roots)

        async def look(place: int, root: str) -> None:
            with suppress(NoAnswer):
                answer = await pool.exchange("GET", URL(f"{root}/health"), b"", self._headers, seconds=self._seconds)
                healthy[place] = answer.status == 200

        async with open_pool() as pool, anyio.create_task_group() as calls:
            for place, root in enumerate(self.roots):
                calls.start_soon(look, place, root)
        return healthy


def _is_no_route(body: bytes) -> bool:
    """Whether a 404 means that there is no route, as FastAPI and aiohttp say it; others say what else is not found."""
    return not body or b'"detail":"Not Found"' in body.replace(b" :", b":").replace(b": ", b":") or body[:4] == b"404:"
