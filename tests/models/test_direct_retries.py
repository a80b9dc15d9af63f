"""Retries of the direct lane: which failures, how often, how long, and never past the call's timeout."""

from pathlib import Path

import anyio
import pytest
from aiohttp import web

from rollouthub import ModelError
from rollouthub.messages import assistant, user
from rollouthub.models.retry import Backoff
from tests.models.servers import Script, ask, body, direct, mock_server, raw_server, say

GOOD = b'{"choices":[{"message":{"content":"hi"}}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(GOOD), GOOD)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_troubles_are_tried_again_and_counted(status: int) -> None:
    script = Script(body({}, status), body({}, status), say())
    async with script.serve() as url, direct(url) as model:
        reply = await model.generate(ask())
    assert (reply.message, reply.retries, len(script.asked)) == (assistant("hi"), 2, 3)


async def test_tries_are_finite() -> None:
    script = Script(body({"error": {"message": "overloaded"}}, 503))
    async with script.serve() as url, direct(url, max_tries=3) as model:
        with pytest.raises(ModelError, match=r"HTTP 503: overloaded \(after 3 tries\)") as caught:
            await model.generate(ask())
    assert (caught.value.status, caught.value.retryable, len(script.asked)) == (503, True, 3)


async def test_retry_after_is_waited_for() -> None:
    script = Script(body({}, 429, {"Retry-After": "0.05"}), say())
    async with script.serve() as url, direct(url) as model:
        started = anyio.current_time()
        reply = await model.generate(ask())
        assert anyio.current_time() - started >= 0.05
    assert reply.retries == 1


async def test_a_retry_after_beyond_the_timeout_fails_at_once() -> None:
    script = Script(body({}, 429, {"Retry-After": "3600"}), say())
    async with script.serve() as url, direct(url) as model:
        with anyio.fail_after(20), pytest.raises(ModelError, match="429") as caught:
            await model.generate(ask(timeout_seconds=60))
    assert (caught.value.retryable, len(script.asked)) == (True, 1)


async def test_waits_stay_within_the_timeout() -> None:
    script = Script(body({}, 500))
    patient = Backoff(base_seconds=100.0, cap_seconds=100.0, jitter=lambda: 1.0)
    async with script.serve() as url, direct(url, backoff=patient) as model:
        with anyio.fail_after(20), pytest.raises(ModelError, match="HTTP 500"):
            await model.generate(ask(timeout_seconds=60))
    assert len(script.asked) == 1


async def test_a_server_that_never_answers_runs_into_the_timeout() -> None:
    done = anyio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        await done.wait()
        return web.Response()

    async with Script(never).serve() as url, direct(url) as model:
        with anyio.fail_after(20), pytest.raises(ModelError, match="no answer within") as caught:
            await model.generate(ask(timeout_seconds=0.1))
        done.set()
    assert (caught.value.status, caught.value.retryable) == (None, True)


async def test_a_call_without_any_time_is_not_made() -> None:
    script = Script(say())
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(ModelError, match="time was over"):
            await model.generate(ask(timeout_seconds=0.0))
    assert script.asked == []


async def test_an_empty_account_is_not_asked_again() -> None:
    script = Script(body({"error": {"message": "no money left", "code": "insufficient_quota"}}, 429))
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(ModelError, match="no money left") as caught:
            await model.generate(ask())
    assert (caught.value.retryable, len(script.asked)) == (False, 1)


async def test_cancelling_a_call_ends_it_at_once() -> None:
    asked, done = anyio.Event(), anyio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        asked.set()
        await done.wait()
        return web.Response()

    async with Script(never).serve() as url, direct(url) as model:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as calls:
                calls.start_soon(model.generate, ask())
                await asked.wait()
                calls.cancel_scope.cancel()
        done.set()


@pytest.mark.parametrize(
    "rude",
    [
        b"",
        b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": [',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 500\r\n\r\n{",
        b"garbage\r\n\r\n",
    ],
)
async def test_a_connection_that_breaks_off_is_tried_again(rude: bytes) -> None:
    async with raw_server(rude, ANSWER) as url, direct(url) as model:
        reply = await model.generate(ask())
    assert (reply.message, reply.retries) == (assistant("hi"), 1)


async def test_nobody_listening_is_a_retryable_failure() -> None:
    async with raw_server(b"") as url:
        pass
    async with direct(url, max_tries=2) as model:
        with pytest.raises(ModelError, match=r"nothing listens at .* \(after 2 tries\)") as caught:
            await model.generate(ask())
    assert (caught.value.status, caught.value.retryable) == (None, True)


async def test_a_host_without_an_address_is_named() -> None:
    async with direct("http://no-such-host.invalid/v1", max_tries=1) as model:
        with pytest.raises(ModelError, match=r"no-such-host\.invalid"):
            await model.generate(ask())


async def test_three_errors_in_ten_calls_still_complete() -> None:
    retries: list[int] = []

    name = "mock/echo?fail=0.2&ratelimit=0.1&retry_after=0"
    async with mock_server(name) as url, direct(url, max_tries=20) as model:

        async def call(number: int) -> None:
            reply = await model.generate(ask(user(f"question {number}")))
            assert reply.message == assistant(f"question {number}")
            retries.append(reply.retries)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                for number in range(200):
                    calls.start_soon(call, number)
    assert len(retries) == 200
    # Expected: 200 * 0.3 / 0.7, about 86.
    assert 50 < sum(retries) < 130


async def test_more_calls_than_connections_wait_their_turn() -> None:
    async with mock_server("mock/say?text=ok") as url, direct(url, max_connections=2) as model:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as calls:
                for _ in range(50):
                    calls.start_soon(model.generate, ask())


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel does not show its sockets' timers here")
async def test_a_silent_connection_is_probed_so_that_a_host_that_is_gone_is_noticed() -> None:
    timers: list[str] = []

    async def look(request: web.Request) -> web.StreamResponse:
        assert request.url.port is not None
        server = f":{request.url.port:04X}"
        timers.extend(timer.partition(":")[0] for peer, timer in _sockets() if peer.endswith(server))
        return await say()(request)

    async with Script(look).serve() as url, direct(url) as model:
        await model.generate(ask())
    assert timers == ["02"]  # the timer that probes


ESTABLISHED = "01"


def _sockets() -> list[tuple[str, str]]:
    """The peer and the timer of every connection of this machine; what an earlier one left at the port is none."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [(line.split()[2], line.split()[5]) for line in lines if line.split()[3] == ESTABLISHED]
