"""Delivering spans: a collector that is dead, hangs or refuses costs a run nothing but its spans."""

import logging
import time
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import ConfigError
from rollouthub.http.exchange import open_pool
from rollouthub.models.credentials import Credentials
from rollouthub.telemetry.traces.otlp_collector import (
    FAREWELL_SECONDS,
    MOST_WAITING,
    OtlpDelivery,
    traces_headers,
    traces_url,
)
from rollouthub.telemetry.traces.spans import Span
from rollouthub.telemetry.traces.tracer import open_tracer
from tests.telemetry.collectors import Collector, hanging, play, until

CLOSED = "http://127.0.0.1:9"


def span(name: str = "x") -> Span:
    return Span(b"t" * 16, b"s" * 8, b"", name, 0.0, 1.0)


async def test_a_dead_collector_costs_a_run_nothing_but_its_spans(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rollouts = await play(tmp_path / "run", model="mock/solver", traces=CLOSED, limit=20)
    assert [rollout.outcome.value for rollout in rollouts] == ["scored"] * 20
    assert caplog.text.count("traces are not delivered to http://127.0.0.1:9/v1/traces") == 1


@pytest.mark.live
async def test_a_hanging_collector_holds_up_the_end_of_a_run_for_seconds_alone(tmp_path: Path) -> None:
    async with hanging() as (url, met):
        began = time.perf_counter()
        rollouts = await play(tmp_path / "run", model="mock/solver", traces=url, limit=20)
        assert time.perf_counter() - began < FAREWELL_SECONDS + 3
    assert len(rollouts) == 20
    assert met == [1]


async def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    async with hanging() as (url, met), open_pool() as pool:
        delivery = OtlpDelivery(traces_url(url), {}, {}, "1", farewell_seconds=1)
        delivery.take(span())
        with anyio.fail_after(20):
            await delivery.end(pool)
    assert (delivery.dropped, met) == (1, [1])


async def test_spans_wait_within_bounds_and_the_oldest_give_way() -> None:
    delivery = OtlpDelivery(CLOSED, {}, {}, "1")
    for number in range(MOST_WAITING + 10):
        delivery.take(span(str(number)))
    assert delivery.dropped == 10
    async with open_pool() as pool:
        await delivery.end(pool)
    assert delivery.dropped == MOST_WAITING + 10


async def test_what_a_collector_refuses_for_good_is_not_sent_again() -> None:
    collector = Collector(status=400)
    async with collector.serve() as url, open_tracer(url, Credentials()) as tracer:
        tracer.take(span())
    assert (tracer.dropped, len(collector.headers)) == (1, 1)


async def test_what_a_busy_collector_sent_away_is_delivered_later() -> None:
    collector = Collector(status=503)
    async with collector.serve() as url, open_pool() as pool:
        delivery = OtlpDelivery(traces_url(url), {}, {"service.name": "x"}, "1", gather_seconds=0.01)
        delivery.take(span())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(delivery.run, pool)
            await until(lambda: collector.headers)
            collector.status = 200
            await until(lambda: delivery.delivered)
            tasks.cancel_scope.cancel()
    assert (delivery.dropped, delivery.delivered) == (0, 1)


async def test_a_collectors_key_comes_from_the_environment_and_is_never_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    collector = Collector(status=401)
    keys = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=s%20ecret-word, other=1"}
    async with collector.serve() as url:
        await play(tmp_path / "run", model="mock/solver", traces=url, environ=keys)
    assert (collector.headers[0]["x-key"], collector.headers[0]["other"]) == ("s ecret-word", "1")
    assert "ecret-word" not in caplog.text
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or b"ecret-word" not in file.read_bytes()


@pytest.mark.parametrize(
    ("given", "posted"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
        ("https://traces.example/api/otel/", "https://traces.example/api/otel/v1/traces"),
    ],
)
def test_spans_are_posted_where_collectors_expect_them(given: str, posted: str) -> None:
    assert traces_url(given) == posted


@pytest.mark.parametrize(
    "given", ["4318", "127.0.0.1:4318", "ftp://x", "http://", "http://a:b@x:1", "http://x:1?key=a"]
)
def test_an_address_that_cannot_hold_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--traces"):
        traces_url(given)


def test_a_password_in_the_address_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        traces_url("https://user:hunter22@traces.example")
    assert "hunter22" not in str(refused.value)


def test_headers_that_are_none_are_refused_without_repeating_them() -> None:
    with pytest.raises(ConfigError) as refused:
        traces_headers("hunter22")
    assert "hunter22" not in str(refused.value)
