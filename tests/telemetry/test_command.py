"""`--metrics` and `--traces` as people give them."""

import socket
from pathlib import Path

import aiohttp
import anyio
import pytest

from rollouthub.engine.run_request import RunRequest
from rollouthub.gateway.sessions.open_service import external_agents_plan
from rollouthub.gateway.sessions.serve_sessions import HubOrder, HubReady, serve_hub
from rollouthub.models.credentials import Credentials
from tests.cli.conftest import Hub
from tests.cli.conftest import hub as hub
from tests.telemetry.collectors import until


def test_a_port_that_is_taken_is_refused_before_anything_is_played(hub: Hub, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refusal = hub("run", "arithmetic", "--limit", "1", "--metrics", str(port), "-o", "run").refused()
    assert f"cannot listen on 127.0.0.1:{port}" in refusal
    assert not (tmp_path / "run" / "run.db").exists()


@pytest.mark.live
def test_a_free_port_is_said(hub: Hub, tmp_path: Path) -> None:
    done = hub("run", "arithmetic", "--limit", "1", "--metrics", "0", "-o", "run")
    assert done.code == 0
    assert "metrics at http://127.0.0.1:" in done.err + done.out
    assert "metrics at http://127.0.0.1:" in "".join(file.read_text() for file in (tmp_path / "run/logs").iterdir())


async def test_a_hub_that_serves_says_where_its_metrics_are_and_counts_visits(tmp_path: Path) -> None:
    plan = external_agents_plan(RunRequest(environments=("arithmetic",), metrics="0"))
    order = HubOrder(plan, tmp_path / "run", Credentials(), "key", f"unix:{tmp_path}/c.sock", metrics_token="t0ken")
    assert "t0ken" not in repr(order)
    is_ready, leave = anyio.Event(), anyio.Event()
    said: list[HubReady] = []
    after = ""

    def ready(hub: HubReady) -> None:
        said.append(hub)
        is_ready.set()

    async def metrics() -> str:
        assert said[0].metrics_url is not None
        headers = {"Authorization": "Bearer t0ken"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(said[0].metrics_url) as response:
            return await response.text()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_hub, order, ready, leave.wait, lambda: None)
        with anyio.fail_after(10):
            await is_ready.wait()
        control = aiohttp.UnixConnector(path=f"{tmp_path}/c.sock")
        async with aiohttp.ClientSession(connector=control, headers={"Authorization": "Bearer key"}) as session:
            async with session.post("http://hub/v1/episodes", json={"environment": "arithmetic"}) as response:
                opened = await response.json()
                assert response.status == 200, opened
            assert 'rollouthub_episodes_in_flight{state="setup"}' in await metrics()
            async with session.post(f"http://hub/v1/episodes/{opened['id']}/verify", json={}) as response:
                assert response.status == 200, await response.text()
        after = await metrics()
        leave.set()
    assert 'rollouthub_rollouts_total{environment="arithmetic",kind="scored",outcome="scored"} 1.0' in after
    assert "rollouthub_run_planned" not in after
    await until(lambda: not Path(f"{tmp_path}/c.sock").exists())
