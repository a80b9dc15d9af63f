"""The router over real servers and the direct lane: who is asked how often, and who answers when some are gone."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from rollouthub import ModelError
from rollouthub.errors import BudgetError, ConfigError, UsageError
from rollouthub.generation import ModelReply
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_lane, open_model
from rollouthub.models.router import CircuitBreakerSettings, Router, open_router
from tests.models.servers import AT_ONCE, Handler, Script, ask, body, raw_server, say, serving
from tests.ports import free_port

HUB = Path(sys.executable).parent / "hub"
QUICK = CircuitBreakerSettings(base_seconds=0.02, cap_seconds=0.1, step_seconds=0.05)


class Server(Script):
    """A scripted server that lists its model, and counts who asks for that."""

    def __init__(self, *answers: Handler) -> None:
        super().__init__(*answers)
        self.checks = 0
        self.is_well = True

    async def _models(self, request: web.Request) -> web.Response:
        self.checks += 1
        return web.json_response({"data": [{"id": "served" if self.is_well else "still loading"}]})

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        async with serving(app) as url:
            yield url


class Hold:
    """An answer that comes once it is let go."""

    def __init__(self, text: str = "held") -> None:
        self.free = anyio.Event()
        self.asked = anyio.Semaphore(0)
        self._answer = say(text)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.release()
        await self.free.wait()
        return await self._answer(request)


@asynccontextmanager
async def router(*urls: str, breaker: CircuitBreakerSettings = QUICK, **config: Any) -> AsyncGenerator[Router]:
    """A router over these servers."""
    whole = ModelConfig(name="hosted_vllm/served", base_url=urls[0], replicas=urls[1:], **config)
    async with open_router(whole, Credentials(), open_lane, backoff=AT_ONCE, breaker=breaker) as model:
        yield model


async def together(model: Router, count: int, **asked: Any) -> tuple[list[ModelReply], list[ModelError]]:
    """Make calls at the same time; what was answered, and what failed."""
    replies: list[ModelReply] = []
    errors: list[ModelError] = []

    async def call(number: int) -> None:
        try:
            replies.append(await model.generate(ask(user(f"question {number}"), **asked)))
        except ModelError as error:
            errors.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as calls:
            for number in range(count):
                calls.start_soon(call, number)
    return replies, errors


async def until(is_so: Callable[[], bool], model: Router) -> None:
    """Make calls until something is so."""
    with anyio.fail_after(60):
        while not is_so():
            await model.generate(ask())


@contextmanager
def mock_process(port: int) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """A mock server in a process of its own at a port that it may come back to, and its base URL."""
    command = [str(HUB), "serve", "mock", "mock/say?text=process", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            address = re.search(r"http://[\w.:/]+", process.stdout.readline().decode())
            assert address is not None
            yield process, address[0]
        finally:
            process.send_signal(signal.SIGKILL)


# --- servers ----------------------------------------------------------------------------------------------------


async def test_a_busy_server_is_left_to_its_work() -> None:
    hold = Hold()
    slow, quick = Server(hold), Server(say("quick"))
    async with slow.serve() as first, quick.serve() as second, router(first, second) as model:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                begun = 0
                while not slow.asked:
                    calls.start_soon(model.generate, ask())
                    begun += 1
                    while len(slow.asked) + len(quick.asked) < begun:
                        await anyio.lowlevel.checkpoint()
                before = len(quick.asked)
                for _ in range(10):
                    assert (await model.generate(ask())).message.text == "quick"
                assert (len(slow.asked), len(quick.asked) - before) == (1, 10)
                hold.free.set()


async def test_every_turn_of_a_session_is_sent_to_the_same_server() -> None:
    servers = [Server(say()) for _ in range(3)]
    async with servers[0].serve() as a, servers[1].serve() as b, servers[2].serve() as c, router(a, b, c) as model:
        for _ in range(4):
            for session in range(9):
                await model.generate(ask(session=f"r{session}"))
    homes = [{headers["X-Session-ID"] for headers in server.headers} for server in servers]
    assert [len(home) for home in homes] == [3, 3, 3]
    assert len(homes[0] | homes[1] | homes[2]) == 9


@pytest.mark.parametrize("rude", [b"", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", b"garbage\r\n\r\n"])
async def test_calls_that_break_at_one_server_are_answered_by_the_other(rude: bytes) -> None:
    good = Server(say())
    async with raw_server(rude) as bad, good.serve() as url, router(bad, url) as model:
        replies, errors = await together(model, 40)
        assert (len(replies), errors) == (40, [])
        assert len(good.asked) == 40
        assert [status.is_paused for status in model.status()] == [True, False]


async def test_a_server_that_is_out_is_checked_and_spared_calls_until_it_is_well() -> None:
    sick, good = Server(body({}, 503)), Server(say("good"))
    sick.is_well = False
    async with sick.serve() as first, good.serve() as second, router(first, second) as model:
        await until(lambda: model.status()[0].is_paused, model)
        asked = len(sick.asked)
        await until(lambda: sick.checks >= 3, model)
        assert len(sick.asked) == asked == QUICK.failures
        sick.is_well = True
        sick.asked.clear()
        await until(lambda: len(sick.asked) >= 1, model)


async def test_a_server_killed_in_mid_run_and_started_again_gets_its_share_back() -> None:
    other = Server(say("other"))
    async with other.serve() as url:
        port = free_port()
        with mock_process(port) as (process, address):
            config = ModelConfig(name="hosted_vllm/mock", base_url=address, max_tries=4)
            stand_in = ModelConfig(name="hosted_vllm/served", base_url=url)
            whole = config.model_copy(update={"fallbacks": (stand_in,)})
            async with open_router(whole, Credentials(), open_lane, backoff=AT_ONCE, breaker=QUICK) as model:
                assert (await model.generate(ask())).message.text == "process"
                process.kill()
                replies, errors = await together(model, 50)
                assert errors == []
                assert {reply.message.text for reply in replies} == {"other"}
                assert model.status()[0].is_paused
                with mock_process(port):
                    await until(lambda: not model.status()[0].is_paused, model)
                    replies, errors = await together(model, 50)
                    assert {reply.message.text for reply in replies} == {"process"}


async def test_calls_in_flight_wait_for_their_only_server_to_come_back() -> None:
    port = free_port()
    with mock_process(port) as (process, address):
        config = ModelConfig(name="hosted_vllm/mock", base_url=address, max_tries=6)
        async with open_router(config, Credentials(), open_lane, breaker=QUICK) as model:
            await model.generate(ask())
            process.kill()
            process.wait()
            replies: list[str] = []
            done = anyio.Event()

            async def call() -> None:
                replies.append((await model.generate(ask(timeout_seconds=30))).message.text)
                if len(replies) == 20:
                    done.set()

            with anyio.fail_after(30):
                async with anyio.create_task_group() as calls:
                    for _ in range(20):
                        calls.start_soon(call)
                    with mock_process(port):
                        await done.wait()
    assert replies == ["process"] * 20


# --- fallbacks --------------------------------------------------------------------------------------------------


async def test_the_fallback_answers_without_tokens_and_under_its_name() -> None:
    tokens = {"choices": [{"message": {"content": "x"}, "token_ids": [1]}], "prompt_token_ids": [2]}
    other = Server(body(tokens))
    async with Server(body({}, 500)).serve() as bad, other.serve() as good:
        fallbacks = [ModelConfig(name="openai/served", base_url=good)]
        async with router(bad, fallbacks=fallbacks) as model:
            reply = await model.generate(ask())
    assert (reply.model, reply.prompt_token_ids, reply.output_token_ids) == ("openai/served", None, None)


async def test_a_callers_fault_is_not_asked_of_the_fallback() -> None:
    other = Server(say())
    async with Server(body({"error": "bad"}, 400)).serve() as bad, other.serve() as good:
        fallbacks = [ModelConfig(name="openai/served", base_url=good)]
        async with router(bad, fallbacks=fallbacks) as model:
            with pytest.raises(ModelError, match="HTTP 400"):
                await model.generate(ask())
    assert other.asked == []


# --- limits -----------------------------------------------------------------------------------------------------


async def test_servers_see_no_more_requests_than_the_limit_with_failures_and_all() -> None:
    servers = [Server(say(), body({}, 500), say(), body({}, 429), say()) for _ in range(2)]
    async with servers[0].serve() as a, servers[1].serve() as b, router(a, b, requests_per_minute=17) as model:
        replies, errors = await together(model, 60, timeout_seconds=2.5)
    assert sum(len(server.asked) for server in servers) == 17
    assert len(replies) == 13
    assert len(errors) == 47


async def test_servers_see_no_more_tokens_than_the_limit() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 80}
    server = Server(say(usage=usage))
    async with server.serve() as url, router(url, tokens_per_minute=1000, sampling={"max_tokens": 80}) as model:
        replies, errors = await together(model, 30, timeout_seconds=4.0)
    # Each takes 100, and needs a little more to begin.
    assert 9 <= len(server.asked) <= 10
    assert (len(replies), len(errors)) == (len(server.asked), 30 - len(server.asked))


async def test_a_budget_bounds_what_servers_are_asked() -> None:
    server = Server(say(usage={"prompt_tokens": 0, "completion_tokens": 10}))
    bounds: dict[str, Any] = {"budget": 1.0, "price_prompt": 0.0, "price_output": 1e4, "sampling": {"max_tokens": 10}}
    async with server.serve() as url, router(url, **bounds) as model:
        replies, errors = await together(model, 60)
        assert model.spent == pytest.approx(1.0)
    assert (len(replies), len(server.asked)) == (10, 10)
    assert all(isinstance(error, BudgetError) for error in errors)


async def test_no_more_calls_are_in_flight_than_connections_over_all_servers() -> None:
    holds = [Hold(), Hold()]
    servers = [Server(hold) for hold in holds]
    async with servers[0].serve() as a, servers[1].serve() as b, router(a, b, max_connections=4) as model:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                for _ in range(10):
                    calls.start_soon(model.generate, ask())
                for _ in range(2):
                    for hold in holds:
                        await hold.asked.acquire()
                await anyio.wait_all_tasks_blocked()
                assert ([len(server.asked) for server in servers], model.waiting) == ([2, 2], 6)
                for hold in holds:
                    hold.free.set()


# --- the ends ---------------------------------------------------------------------------------------------------


async def test_an_interrupted_run_leaves_nothing_behind() -> None:
    hold = Hold()
    async with Server(hold).serve() as url, raw_server(b"") as dead:
        opened: list[Router] = []
        with anyio.fail_after(20), anyio.CancelScope() as interrupt:
            async with router(url, dead, requests_per_minute=30) as model, anyio.create_task_group() as calls:
                opened.append(model)
                for _ in range(60):
                    calls.start_soon(model.generate, ask())
                await hold.asked.acquire()
                interrupt.cancel()
        assert interrupt.cancelled_caught
        (model,) = opened
        assert (model.waiting, [status.in_flight for status in model.status()]) == (0, [0, 0])
        hold.free.set()


async def test_a_model_of_one_server_is_routed_too_so_that_its_restart_is_waited_for() -> None:
    async with (
        Server(say()).serve() as url,
        open_model(ModelConfig(name="hosted_vllm/served", base_url=url), Credentials()) as model,
    ):
        assert isinstance(model, Router)
        assert (await model.generate(ask())).message.text == "hi"


async def test_a_model_with_replicas_is_opened_as_a_router_and_checked_as_one() -> None:
    async with Server(say()).serve() as url, raw_server(b"") as dead:
        config = ModelConfig(name="hosted_vllm/served", base_url=url, replicas=(dead,))
        async with open_model(config, Credentials()) as model:
            assert isinstance(model, Router)
            await preflight(model)
            assert [status.is_paused for status in model.status()] == [False, True]
        async with open_model(config.model_copy(update={"name": "hosted_vllm/other"}), Credentials()) as model:
            with pytest.raises(ConfigError, match="serves no model 'other'"):
                await preflight(model)
    async with open_model(config, Credentials()) as model:
        with pytest.raises(UsageError, match="cannot be reached"):
            await preflight(model)
