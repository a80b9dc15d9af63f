"""Where a run's metrics are found: on this machine, by scrapers alone, while it plays."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError
from rollouthub.telemetry.metrics.metrics_endpoint import metrics_address, monitored
from rollouthub.telemetry.metrics.run_monitor import RunMonitor
from tests.models.servers import mock_server
from tests.telemetry.collectors import Silent, play, until


@asynccontextmanager
async def exposed(address: str = "0", token: str | None = None) -> AsyncGenerator[tuple[RunMonitor, LiveRun]]:
    live = LiveRun(StopSignal())
    async with monitored(address, live, Silent(), token=token) as monitor:
        yield monitor, live


async def get(url: str | None, method: str = "GET", **headers: str) -> tuple[int, str]:
    assert url is not None
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as response:
        return response.status, await response.text()


async def test_a_run_is_seen_while_it_plays_and_gone_when_it_is_over(tmp_path: Path) -> None:
    live, seen = LiveRun(StopSignal()), list[str]()
    async with mock_server("mock/solver?latency=0.2..0.2") as base, monitored("0", live, Silent()) as monitor:
        async with anyio.create_task_group() as tasks:

            async def scrape() -> None:
                await until(lambda: [attempt.state for attempt in live.attempts.values()] == ["model"] * 4)
                seen.append((await get(monitor.url))[1])

            tasks.start_soon(scrape)
            asked: dict[str, Any] = {"model": "hosted_vllm/served", "base_url": base, "limit": 8, "concurrency": 4}
            await play(tmp_path / "run", observer=monitor, live=live, **asked)
        seen.append((await get(monitor.url))[1])
    during, after = seen
    assert 'rollouthub_episodes_in_flight{state="model"} 4.0' in during
    assert f'rollouthub_backend_in_flight{{backend="{base}",model="hosted_vllm/served"}} 4.0' in during
    assert "rollouthub_pool_concurrency 4.0" in during
    assert "rollouthub_queue_length 4.0" in during
    assert "rollouthub_run_planned 8.0" in during
    assert 'rollouthub_rollouts_total{environment="arithmetic",kind="scored",outcome="scored"} 8.0' in after
    assert "rollouthub_store_records_total 8.0" in after
    assert 'rollouthub_pass_rate{environment="arithmetic"} 1.0' in after
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(monitor.url)


async def test_a_page_in_a_browser_and_a_rebound_name_are_turned_away() -> None:
    async with exposed() as (monitor, _):
        assert (await get(monitor.url, Host="evil.example"))[0] == 421
        assert (await get(monitor.url, Origin="http://evil.example"))[0] == 403
        assert (await get(monitor.url, Origin="http://127.0.0.1:3000"))[0] == 403
        assert (await get(monitor.url))[0] == 200


async def test_on_every_address_names_of_others_are_still_turned_away() -> None:
    async with exposed("0.0.0.0:0") as (monitor, _):
        assert monitor.url is not None
        url = monitor.url.replace("0.0.0.0", "127.0.0.1")
        assert (await get(url, Host="evil.example"))[0] == 421
        assert (await get(url, Host="10.1.2.3:9400"))[0] == 200
        assert (await get(url, Host=f"{socket.gethostname()}:9400"))[0] == 200


async def test_with_a_token_nobody_reads_without_it() -> None:
    async with exposed(token="t0ken") as (monitor, _):
        assert [(await get(monitor.url))[0], (await get(monitor.url, Authorization="Bearer x"))[0]] == [401, 401]
        status, text = await get(monitor.url, Authorization="Bearer t0ken")
        assert (status, "t0ken" in text) == (200, False)


async def test_only_the_metrics_are_there_and_only_to_be_read() -> None:
    async with exposed() as (monitor, _):
        assert monitor.url is not None
        assert (await get(monitor.url.removesuffix("metrics")))[0] == 404
        assert (await get(monitor.url, "POST"))[0] == 405
        assert await get(monitor.url, "HEAD") == (200, "")


async def test_a_port_that_is_taken_is_a_clear_refusal() -> None:
    async with exposed() as (monitor, _):
        assert monitor.url is not None
        port = monitor.url.partition("127.0.0.1:")[2].partition("/")[0]
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            async with exposed(port):
                pass


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("9400", ("127.0.0.1", 9400)),
        (":0", ("127.0.0.1", 0)),
        ("localhost:1", ("localhost", 1)),
        ("0.0.0.0:9400", ("0.0.0.0", 9400)),
        ("[::1]:9400", ("::1", 9400)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(given: str, found: tuple[str, int]) -> None:
    assert metrics_address(given) == found


@pytest.mark.parametrize("given", ["", "http://x:1", "x", "1:2:3", "70000", "::1:9400", "x:²"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="--metrics"):
        metrics_address(given)


async def test_an_error_in_a_watched_run_arrives_as_it_is() -> None:
    with pytest.raises(ConfigError, match="as it is"):
        async with exposed():
            raise ConfigError("as it is")
