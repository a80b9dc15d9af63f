"""`hub serve` as people start it: a process of its own."""

import signal
from pathlib import Path

from rollouthub import Outcome, Stop
from rollouthub.gateway.gateway_client import HubClient
from rollouthub.gateway.sessions.serve_sessions import HubReady
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.store import open_run
from tests.gateway.sessions.front import TALLY, call
from tests.hosting.server.processes import started

TOKEN = "control-canary-11c0de"


async def test_it_says_where_it_serves_and_records_what_was_open_when_told_to_leave(tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    command = (
        "-vv",
        "serve",
        TALLY,
        "--setup-timeout",
        "90s",
        "--tool-timeout",
        "7m",
        "-m",
        "mock/say?text=hi",
        "--practice",
        "--json",
        "--control",
    )
    async with started(*command, "127.0.0.1:0", "-o", str(run), log=log, ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as hub:
        ready = HubReady.model_validate_json(await hub.line())
        assert ready.practice == (f"{ready.gateway_url}/practice/tally/mcp",)
        async with HubClient(ready.control_url, TOKEN) as client:
            played, left = await client.open(EpisodeRequest()), await client.open(EpisodeRequest())
            assert played.agent_url is not None
            for _ in range(2):
                await call(played.agent_url, "add")
            await call(played.agent_url, "submit", answer="two")
            report = await client.verify(played.id)
            await call(ready.practice[0].replace("/mcp", "/secretkey1/mcp"), "add")
        hub.process.send_signal(signal.SIGTERM)
        assert await hub.process.wait() == 0
    assert report.score is not None
    assert (report.outcome, report.stop, report.score.reward) == (Outcome.SCORED, Stop.SUBMITTED, 1.0)
    with open_run(run) as reader:
        assert {each.rollout_id: each.outcome for each in reader.rollouts() if each.agent.name == "visitor"} == {
            played.id: Outcome.SCORED,
            left.id: Outcome.CANCELLED,
        }
        assert reader.info.status == "finished"
        request = reader.info.resolved["request"]
        assert isinstance(request, dict)
        assert request["deadlines"] == {"setup": 90, "tool_call": 420}
    said = log.read_text() + "".join(file.read_text() for file in (run / "logs").iterdir())
    for secret in (TOKEN, played.api_key, left.api_key, "secretkey1"):
        assert secret is not None
        assert secret not in said
