"""`Router`: a model with several servers, rate limits, a budget and fallback models."""

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio

from rollouthub.errors import BudgetError, ConfigError, CredentialError, ModelError, UsageError
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.preflight import ParticularModel, preflight
from rollouthub.models.prices import Price
from rollouthub.models.retry import Backoff, StreamCut, final
from rollouthub.models.router.budget import Budget
from rollouthub.models.router.call_estimate import Estimator, Expected
from rollouthub.models.router.fallback_tries import Tries
from rollouthub.models.router.gate import Begun, RateLimiter
from rollouthub.models.router.replica import MISFIT_STATUSES, ModelReplica, ReplicaStatus
from rollouthub.models.router.replicas import Replicas
from rollouthub.models.unfinished_call import estimated

logger = logging.getLogger(__name__)

_UNAVAILABLE = MISFIT_STATUSES | {402, 429}
"""HTTP statuses of final failures after which a fallback model is still tried: no key, no access, no such model, no
money left.
"""

_T = TypeVar("_T")


class Router:
    """A model over its servers. `open_router` makes one."""

    def __init__(
        self,
        config: ModelConfig,
        replicas: Replicas,
        gate: RateLimiter,
        budget: Budget,
        price: Price | None,
        backoff: Backoff,
        fallbacks: Sequence["Router"] = (),
    ) -> None:
        self.name = config.name
        self.replicas, self.fallbacks = replicas, tuple(fallbacks)
        self._config, self._gate, self._budget, self._price, self._backoff = config, gate, budget, price, backoff
        self._now = replicas.now
        replicas.on_change = gate.changed
        self._tokens_limit = config.tokens_per_minute
        self._is_budgeted = budget.is_limited
        self._estimator = Estimator(config) if self._is_budgeted or self._tokens_limit is not None else None
        self._has_warned = False

    def __repr__(self) -> str:
        return f"Router({self.name!r}, {len(self.replicas)} servers)"

    @property
    def spent(self) -> float:
        """Cost of the answers so far in US dollars, including aborted ones and those of fallbacks, where prices are
        known.
        """
        return self._budget.spent

    def tick(self, lag_seconds: float) -> None:
        """Adjust how many calls each server gets, and admit waiting calls."""
        room = [replica.tick(lag_seconds) for replica in self.replicas.all]
        if any(room) and self._gate.waiting:
            self._gate.changed()

    @property
    def waiting(self) -> int:
        """How many calls wait for a connection or a limit."""
        return self._gate.waiting

    @property
    def in_flight(self) -> int:
        """How many tries are in flight."""
        return self._gate.in_flight

    @property
    def limit(self) -> int:
        """How many tries may be in flight at once."""
        return self._gate.limit

    def count_spent(self, dollars: float) -> None:
        """Count costs of earlier calls, such as in a resumed run, against the budget."""
        self._budget.count(dollars)

    def lease(self, dollars: float, *, is_last: bool) -> None:
        """Limit this model and its fallbacks to a part of a shared budget."""
        self._budget.lease(dollars, is_last=is_last)

    def share(self, sharers: int) -> None:
        """Limit this model and its fallbacks to an equal share of their rate limits."""
        if self._config.tokens_per_minute is not None:
            self._tokens_limit = max(1, self._config.tokens_per_minute // sharers)
        self._gate.share(sharers)
        for fallback in self.fallbacks:
            fallback.share(sharers)

    def status(self) -> tuple[ReplicaStatus, ...]:
        """The status of every server, those of fallbacks last."""
        ours = [replica.status(self.name) for replica in self.replicas.all]
        return (*ours, *(status for fallback in self.fallbacks for status in fallback.status()))

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request within its timeout: waits, retries, other servers and fallbacks included.

        Raises:
            ContextLimitError: the conversation is too long.
            BudgetError: the budget does not allow the call.
            ModelError: every server and every fallback failed, or the request was refused.
        """
        deadline = self._now() + request.timeout_seconds
        try:
            if self._estimator is None:
                reply = await self._route(request, deadline, 0)
                if reply.cost is not None:
                    self._budget.count(reply.cost)
                return reply
            return await self._generate_within_bounds(request, deadline, self._estimator)
        except ModelError as error:
            if not self.fallbacks or not (error.retryable or error.status in _UNAVAILABLE):
                raise
            if (last := final(error, request.stream)) is not None:
                raise last from error.__cause__
            return await self._stand_in(request, deadline, error)

    async def check(self, timeout_seconds: float) -> None:
        """Check every server, and every fallback's. Servers may be down if one of the model's own is up.

        Raises:
            UsageError: none of the model's servers can be reached.
            CredentialError: a server refuses the key.
            ConfigError: a server does not serve the model.
        """
        problems: dict[ModelReplica, UsageError] = {}

        async def look(replica: ModelReplica) -> None:
            try:
                await preflight(replica.lane, timeout_seconds)
            except UsageError as error:
                problems[replica] = error

        async with anyio.create_task_group() as looks:
            for replica in self.replicas.all:
                looks.start_soon(look, replica)
        # Mistakes of the configuration are mended before a run, not worked around in it.
        mistakes = [error for error in problems.values() if isinstance(error, ConfigError | CredentialError)]
        if mistakes or len(problems) == len(self.replicas) == 1:
            raise [*mistakes, *problems.values()][0]
        if len(problems) == len(self.replicas):
            raise UsageError("\n".join(str(error).partition("\n")[0] for error in problems.values()))
        for replica, error in problems.items():
            replica.take_out(ModelError(str(error).partition("\n")[0]))
        for fallback in self.fallbacks:
            try:
                await fallback.check(timeout_seconds)
            except (ConfigError, CredentialError):
                raise
            except UsageError as error:
                logger.warning("%s cannot stand in for %s as things are: %s", fallback.name, self.name, error)

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check the sampling settings of requests for this model and its fallbacks.

        Raises:
            ConfigError: one of them does not accept a setting.
        """
        for replica in self.replicas.all:
            if isinstance(replica.lane, ParticularModel):
                await replica.lane.check_sampling(sampling)
        for fallback in self.fallbacks:
            await fallback.check_sampling(sampling)

    async def _generate_within_bounds(self, request: ModelRequest, deadline: float, estimator: Estimator) -> ModelReply:
        """Answer one request, with tokens and money reserved for it."""
        expected = estimator.expect(request)
        tokens = 0
        if self._tokens_limit is not None:
            tokens = estimator.reservation(expected, self._tokens_limit, self.name)
        if not self._is_budgeted:
            reply = await self._route(request, deadline, tokens)
            self._budget.count(reply.cost or 0.0)
        else:
            dollars = self._dollars(expected)
            if not self._budget.try_reserve(dollars):
                await self._within(deadline, self._budget.reserve(dollars), "its budget")
                request = self._with_what_is_left(request, deadline)
            cost = 0.0
            try:
                reply = await self._route(request, deadline, tokens)
                # A server that counts nothing is taken to have used what was set aside.
                cost = reply.cost if reply.cost is not None and reply.usage.output_tokens else dollars
            except BaseException:
                if request.stream is not None and request.stream.has_begun:
                    cost = dollars  # nor does it say what half an answer cost
                raise
            finally:
                self._budget.release(dollars, cost)
        estimator.learn(expected, reply.usage)
        return reply

    def _dollars(self, expected: Expected) -> float:
        assert self._price is not None  # `open_router` refuses a budget without one
        return self._price.cost(expected.prompt_tokens, expected.output_tokens)

    async def _route(self, request: ModelRequest, deadline: float, tokens: int) -> ModelReply:
        """Try servers until one answers."""
        tries: Tries | None = None
        session = request.session
        while True:
            failed = tries.failed if tries is not None else ()
            replica = self.replicas.pick(session, failed)
            begun = self._gate.try_enter(tokens) if replica is not None else None
            if replica is None or begun is None:
                replica, begun = await self._admit(request, failed, deadline, tokens)
                request = self._with_what_is_left(request, deadline)
            try:
                reply = await self._call(replica, begun, request)
            except ModelError as error:
                if (last := final(error, request.stream)) is not None:
                    raise last from error.__cause__
                if tries is None:
                    tries = Tries(self.name, self._config.max_tries, self._backoff, self.replicas)
                wait = tries.after(replica, error, deadline, gives_up_outages=bool(self.fallbacks))
                if wait is not None:
                    logger.debug("%s; trying again in %.2f s", error, wait)
                    await anyio.sleep(wait)
                request = self._with_what_is_left(request, deadline)
                continue
            self.replicas.remember(session, replica)
            return reply if tries is None else tries.succeeded(reply)

    async def _admit(
        self, request: ModelRequest, failed: Sequence[ModelReplica], deadline: float, tokens: int
    ) -> tuple[ModelReplica, Begun]:
        """Wait for a server and then for the limits, so that only a try that begins at once is counted."""
        while True:
            if not self.replicas.is_any_open(failed):
                await self._wait_for_server(deadline)
                if not self.replicas.is_any_open(failed):
                    failed = ()  # only such as failed it before have come back
            room = partial(self._has_room, failed)
            begun = await self._within(deadline, self._gate.enter(tokens, room), "the limits of the model")
            replica = self.replicas.pick(request.session, failed)
            if replica is not None:
                return replica, begun
            self._gate.withdraw(begun)

    def _has_room(self, failed: Sequence[ModelReplica]) -> bool:
        """Whether a waiting call may continue: a server has room, or no server takes calls and the outage must be
        awaited.
        """
        return self.replicas.has_room(failed) or not self.replicas.is_any_open(failed)

    async def _wait_for_server(self, deadline: float) -> None:
        """Wait until a server takes calls.

        Raises:
            ModelError: no server does within the call's time, or the outage lasts longer than the patience.
        """
        replicas = self.replicas
        while not replicas.is_any_open():
            left = deadline - self._now()
            outage = replicas.outage_seconds
            if outage is not None:
                patience = 0.0 if self.fallbacks else replicas.patience_seconds
                left = min(left, patience - outage)
            if left <= 0:
                raise self._outage(outage)
            await replicas.wait_for_open(left)

    def _outage(self, seconds: float | None) -> ModelError:
        if seconds is None:
            return ModelError(f"{self.name}: the call's time was over while its server was on trial after an outage")
        last = max(self.replicas.all, key=lambda replica: replica.down_since)
        servers = "its server gives no answer" if len(self.replicas) == 1 else "none of its servers gives an answer"
        status = last.problem.status if last.problem is not None else None
        return ModelError(
            f"{self.name}: {servers} that can be used, for {seconds:.3g} s by now; {last.problem}", status=status
        )

    async def _call(self, replica: ModelReplica, begun: Begun, request: ModelRequest) -> ModelReply:
        """Make one try at one server, and count its end in every case."""
        # What a try took is unknown where its server may have worked on it in vain: the reservation stands.
        took: int | None = None
        epoch = replica.begin()
        started = self._now()
        try:
            reply = await replica.lane.generate(request)
        except ModelError as error:
            seconds = self._now() - started
            is_fair = seconds < request.timeout_seconds or seconds >= self.replicas.breaker.fair_seconds
            replica.end_failed(epoch, error, is_fair=is_fair, is_late=is_fair and seconds >= request.timeout_seconds)
            if error.status is not None and error.status < 500 and not isinstance(error, StreamCut):
                took = 0
            if request.stream is not None and request.stream.has_begun:
                self._count_broken_off(request)
            raise
        except BaseException:
            replica.end_cancelled(epoch)
            self._count_broken_off(request)
            raise
        else:
            usage = reply.usage
            replica.end_answered(self._now() - started, usage.output_tokens)
            took = (usage.prompt_tokens + usage.output_tokens) or None
            return reply
        finally:
            self._gate.leave(begun, took)

    def _count_broken_off(self, request: ModelRequest) -> None:
        """Count the estimated cost of an answer that was not received to its end."""
        if self._is_budgeted and request.stream is not None and request.stream.has_begun:
            return  # all that was set aside for it counts
        cost = estimated(self, request).cost
        if cost:
            self._budget.count(cost)

    async def _within(self, deadline: float, wait: Awaitable[_T], what: str) -> _T:
        """Await something, at most for the rest of the call's time."""
        with anyio.move_on_after(max(deadline - self._now(), 0.0)):
            return await wait
        raise ModelError(f"{self.name}: the call's time was over before {what} let it begin")

    def _with_what_is_left(self, request: ModelRequest, deadline: float) -> ModelRequest:
        return replace(request, timeout_seconds=max(deadline - self._now(), 0.0))

    async def _stand_in(self, request: ModelRequest, deadline: float, error: ModelError) -> ModelReply:
        """Try the fallbacks in order."""
        if not self._has_warned and self._now() < deadline:
            self._has_warned = True
            logger.warning("%s; asking %s instead, and not saying so again", error, self.fallbacks[0].name)
        problems: list[str] = []
        for fallback in self.fallbacks:
            if self._now() >= deadline:
                break
            try:
                reply = await fallback.generate(self._with_what_is_left(request, deadline))
            except BudgetError:
                raise
            except ModelError as other:
                if (last := final(other, request.stream)) is not None:
                    raise last from other.__cause__
                # What is too long or wrong for this one need not be so for the model that was asked.
                problems.append(str(other))
                continue
            # Another model's tokens: whoever learns from them would learn from what this model never sampled.
            return replace(
                reply,
                prompt_token_ids=None,
                output_token_ids=None,
                output_logprobs=None,
                output_text_ends=None,
                policy_version=None,
                policy_versions=None,
                model=reply.model or fallback.name,
            )
        reasons = "; ".join(["", *problems])
        raise ModelError(f"{error}{reasons}", status=error.status, retryable=error.retryable) from error
