"""A hub that was killed knows, when it is started again, what it had open and what it had scored."""

import os
import shutil
import signal
from pathlib import Path

import aiohttp
import anyio
import pytest

from rollouthub import Outcome
from rollouthub.gateway.gateway_client import HubClient
from rollouthub.gateway.sessions.open_sessions_log import LOG_FILE
from rollouthub.gateway.sessions.serve_sessions import HubReady
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.store import open_run
from tests.gateway.sessions.front import TALLY, call, front, rpc
from tests.hosting.server.processes import started

TOKEN = "control-canary-90210a"


async def test_what_was_open_is_recorded_and_never_scored(tmp_path: Path) -> None:
    keyed, lost = EpisodeRequest(idempotency_key="kept"), EpisodeRequest(idempotency_key="lost", task="test/9")
    async with front(tmp_path / "run") as hub:
        scored = await (await hub.open(keyed)).verify()
        visit, other = await hub.open(lost), await hub.open(EpisodeRequest())
        address = visit.address
        await call(address.agent_url, "add")
        # As kill -9 leaves it: what is written stays, and nothing is tidied.
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
    with (tmp_path / "killed" / LOG_FILE).open("ab") as sessions_log:
        sessions_log.write(b'{"rollout_id": "cut o')
    async with front(tmp_path / "killed", resume=True) as hub, aiohttp.ClientSession() as http:
        for rollout_id in (visit.id, other.id):
            report = await hub.report(rollout_id)
            assert (report.outcome, report.score) == (Outcome.CANCELLED, None)
            assert [(fault.boundary, fault.type) for fault in report.faults] == [("hub", "HubKilled")]
        status, _ = await rpc(http, f"{hub.gateway.base_url}/e/{address.api_key}/mcp", "tools/list")
        assert status == 404
        again = await hub.open(keyed)
        assert again.rollout == scored
        retried = await (await hub.open(lost)).verify()
        assert (retried.rollout_id, retried.attempt) == (visit.id, 1)
        fresh = await (await hub.open(EpisodeRequest(task="test/9"))).close()
        assert fresh.sample == 1
    with open_run(tmp_path / "killed") as reader:
        rewards = [(each.rollout_id, each.reward) for each in reader.rollouts(effective=False) if each.score]
    assert sorted(rewards) == sorted([(scored.rollout_id, 0.0), (visit.id, 0.0)])


def children(pid: int) -> list[int]:
    """The processes that one started, and those that these did."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


@pytest.mark.soak
async def test_a_killed_hub_leaves_no_process_and_goes_on_when_started_again(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    command = ("serve", TALLY, "--served", "--json", "--control", "127.0.0.1:0", "-o", run)
    with anyio.fail_after(120):
        async with started(*command, ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as hub:
            ready = HubReady.model_validate_json(await hub.line())
            async with HubClient(ready.control_url, TOKEN) as client:
                scored = await client.open(EpisodeRequest(idempotency_key="kept"))
                assert scored.agent_url is not None
                await call(scored.agent_url, "submit", answer="x")
                report = await client.verify(scored.id)
                assert report.outcome is Outcome.SCORED
                opened = await client.open(EpisodeRequest())
                servers = [os.pidfd_open(pid) for pid in children(hub.process.pid)]
                assert servers
                hub.process.send_signal(signal.SIGKILL)
                await hub.process.wait()
        for server in servers:
            await anyio.wait_readable(server)  # once it is gone
            os.close(server)
        async with started(*command, "--resume", ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as hub:
            ready = HubReady.model_validate_json(await hub.line())
            async with HubClient(ready.control_url, TOKEN) as client:
                assert (await client.report(opened.id)).outcome is Outcome.CANCELLED
                again = await client.open(EpisodeRequest(idempotency_key="kept"))
                assert again.report == report
            hub.process.send_signal(signal.SIGINT)
            assert await hub.process.wait() == 130
