"""Opens a router: a lane for each server, the background checks, and the fallback models."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio

from rollouthub.errors import ConfigError
from rollouthub.generation import Model
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.http_pool import most_connections
from rollouthub.models.prices import Price, find_price
from rollouthub.models.retry import Backoff
from rollouthub.models.router.budget import Budget
from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.gate import RateLimiter
from rollouthub.models.router.health import watch
from rollouthub.models.router.limit_control import steer
from rollouthub.models.router.replicas import Replicas
from rollouthub.models.router.router import Router

OpenLane = Callable[[ModelConfig, str | None, Credentials], AbstractAsyncContextManager[Model]]
"""Opens a lane to one server of a model; with None, to the one that its provider or environment variable names."""


@asynccontextmanager
async def open_router(
    config: ModelConfig,
    credentials: Credentials,
    open_lane: OpenLane,
    *,
    backoff: Backoff | None = None,
    breaker: CircuitBreakerSettings | None = None,
    now: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Router]:
    """Open a model with its servers and fallbacks; all are closed with the context.

    Fallbacks are opened at once too, so that a missing key is reported before the run. `now` is a monotonic clock in
    seconds for the limits, because asyncio's own may be rounded.

    Raises:
        ConfigError: a budget without a known price, a server given twice, or an error of `open_lane`.
        CredentialError: a key is missing.
    """
    opener = _RouterOpener(credentials, open_lane, backoff or Backoff(), breaker or CircuitBreakerSettings(), now)
    failure: BaseException | None = None
    async with opener.lanes:
        router = await opener.open(config, None)
        try:
            async with anyio.create_task_group() as checks:
                routers = list(_all(router))
                checks.start_soon(steer, routers, now)
                for each in routers:
                    checks.start_soon(watch, each.replicas)
                try:
                    yield router
                finally:
                    checks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # What the caller raised in here should reach it as it was.
            if len(group.exceptions) != 1:
                raise
            failure = group.exceptions[0]
        if failure is not None:
            raise failure


class _RouterOpener:
    """Opens routers that share credentials, lanes and rules of retrying."""

    def __init__(
        self,
        credentials: Credentials,
        open_lane: OpenLane,
        backoff: Backoff,
        breaker: CircuitBreakerSettings,
        now: Callable[[], float],
    ) -> None:
        self.lanes = AsyncExitStack()
        self._credentials, self._open_lane = credentials, open_lane
        self._backoff, self._breaker, self._now = backoff, breaker, now

    async def open(self, config: ModelConfig, parent: Budget | None) -> Router:
        """Open a model's lanes and its fallbacks, whose costs count against its budget too."""
        urls: tuple[str | None, ...] = (config.base_url, *config.replicas)
        if len(set(urls)) < len(urls):
            twice = next(url for url in urls if urls.count(url) > 1)
            raise ConfigError(f"{config.name!r} is given the server {twice} twice; give each once")
        budget = Budget(config.name, config.budget, parent)
        price = _dearest(config, urls)
        if budget.is_limited and price is None:
            raise ConfigError(
                f"a budget needs the price of {config.name!r}, which is not known: give price_prompt and price_output "
                "(US dollars per million tokens; 0 where it is free)"
            )
        # The router tries again itself, so a lane must not.
        single = config.model_copy(update={"max_tries": 1, "replicas": (), "fallbacks": ()})
        lanes = [
            (await self.lanes.enter_async_context(self._open_lane(single, url, self._credentials)), url or config.name)
            for url in urls
        ]
        most = most_connections(config.max_connections)
        gate = RateLimiter(most, config.requests_per_minute, config.tokens_per_minute, self._now, config.name)
        return Router(
            config,
            Replicas(lanes, self._breaker, self._now, most),
            gate,
            budget,
            price,
            self._backoff,
            [await self.open(fallback, budget) for fallback in config.fallbacks],
        )


def _dearest(config: ModelConfig, urls: tuple[str | None, ...]) -> Price | None:
    """The highest price among a model's servers; None if one is unknown."""
    prices = [find_price(config, url) for url in urls]
    known = [price for price in prices if price is not None]
    return max(known, key=lambda price: price.cost(1000, 1000)) if len(known) == len(prices) else None


def _all(router: Router) -> Iterator[Router]:
    yield router
    for fallback in router.fallbacks:
        yield from _all(fallback)
