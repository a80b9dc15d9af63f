"""The MCP project's own suite against our serving layer; `.ci/foreign.sh` installs it."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import pytest

from rollouthub import Outcome
from rollouthub.hosting.open_host import open_served
from rollouthub.protocols import EnvironmentHost, SeatAddress
from rollouthub_registry.check.thorough.conformance import LEGACY, MODERN, PACKAGE, SCENARIOS, at, conformance_outcomes
from rollouthub_registry.check.thorough.node_programs import CONFORMANCE, NodeTools
from rollouthub_servers.arithmetic import Arithmetic
from tests.conformance import baseline, world
from tests.conformance.installed import node_tools
from tests.conformance.world import SuiteWorld
from tests.gateway.outside import harness as gateway_harness
from tests.hosting.local.worlds import host_of
from tests.hosting.server.wire_client import WireClient, served

pytestmark = pytest.mark.live

SECONDS = 240.0
Door = Literal["environment server", "gateway", "gateway to another process"]
UNSCORED = {
    LEGACY: {"server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"},
    MODERN: {"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"},
}
"""What the suite runs without counting it, and we pass."""


@pytest.mark.parametrize("door", get_args(Door))
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_every_scored_scenario_passes_but_for_the_baseline(revision: str, door: Door, tmp_path: Path) -> None:
    tools = await node_tools()
    code, said = 1, ""

    async def judge(url: str) -> None:
        nonlocal code, said
        code, said = await _run_suite(tools, url, revision, tmp_path)

    await _through(door, judge)
    assert code == 0, said
    assert "Baseline check passed" in said
    checks = _checks(tmp_path)
    for scenario in UNSCORED[revision]:
        assert not [check for check in checks[scenario] if check["status"] in ("FAILURE", "WARNING")], scenario


async def test_every_entry_of_the_baseline_is_needed(tmp_path: Path) -> None:
    tools = await node_tools()
    failing: set[str] = set()
    async with served(SuiteWorld, seconds=SECONDS) as wire:
        for revision in (LEGACY, MODERN):
            await _run_suite(tools, (await wire.seat()).url, revision, tmp_path)
    for scenario, checks in _checks(tmp_path).items():
        failed = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
        failing |= {f"{scenario}:{check}" for check in failed} | ({scenario} if failed else set())
    assert set(baseline.entries()) <= failing


async def test_a_shipped_environment_holds_whatever_needs_no_fixtures() -> None:
    tools = await node_tools()
    async with served(Arithmetic, seconds=SECONDS, size=3) as wire:
        outcomes = await conformance_outcomes(tools, lambda: _seat_of(wire))
    assert [outcome.name for outcome in outcomes if outcome.state != "held"] == []
    assert len(outcomes) == sum(len(scenario.versions) for scenario in SCENARIOS)


async def test_a_server_that_is_not_there_breaks_scenarios() -> None:
    tools = await node_tools()
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == "tools-list")
    outcomes = await conformance_outcomes(tools, at("http://127.0.0.1:1/mcp"), scenarios=[scenario])
    assert [(outcome.state, outcome.version) for outcome in outcomes] == [("broke", LEGACY), ("broke", MODERN)]
    assert all("fetch failed" in " ".join(outcome.details) for outcome in outcomes)


async def test_a_server_that_never_answers_takes_no_longer_than_the_bound() -> None:
    tools = await node_tools()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener:
        url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/mcp"
        with anyio.fail_after(30):
            outcomes = await conformance_outcomes(tools, at(url), scenarios=SCENARIOS[:1], scenario_seconds=3)
    assert [(outcome.state, outcome.says) for outcome in outcomes] == [("broke", "not done after 3 s")]


async def _through(door: Door, use: Callable[[str], Awaitable[None]]) -> None:
    """Open an episode of the suite's world behind one of the doors agents come by, and give its URL away."""
    if door == "environment server":
        async with served(SuiteWorld, seconds=SECONDS) as wire:
            await use((await wire.seat()).url)
        return

    async def play(address: SeatAddress) -> None:
        await use(address.agent_url)

    async with AsyncExitStack() as stack:
        if door == "gateway":
            host: EnvironmentHost = host_of(SuiteWorld)
        else:
            host = await stack.enter_async_context(open_served(world.__file__, {}))
        made = await stack.enter_async_context(gateway_harness(host=host))
        assert (await made.play(play, seconds=SECONDS)).outcome is Outcome.SCORED


async def _run_suite(tools: NodeTools, url: str, revision: str, folder: Path) -> tuple[int, str]:
    """A whole requirement set: the exit code, and what was printed; results lie in the folder."""
    arguments = ["server", "--url", url, "--requirements", revision, "--expected-failures", str(baseline.FILE)]
    program = tools.program(PACKAGE, CONFORMANCE)
    ended = await tools.run(program, [*arguments, "-o", str(folder)], timeout_seconds=SECONDS, folder=folder)
    return ended.code, ended.stdout + ended.stderr


def _checks(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the suite wrote down, by scenario; its folders are named like server-ping-2026-11-21T19-05-10-809Z."""
    checks: dict[str, list[dict[str, Any]]] = {}
    for file in folder.glob("server-*/checks.json"):
        scenario = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        checks.setdefault(scenario, []).extend(json.loads(file.read_text()))
    return checks


@asynccontextmanager
async def _seat_of(wire: WireClient) -> AsyncGenerator[str]:
    """A seat of an episode of its own."""
    answer = await wire.control("GET", "/v1/tasks?split=test")
    card = answer.json["cards"][0]["public"]
    episode = await wire.open(task={"id": card["id"], "split": "test"})
    yield episode.seats[0].url
    assert (await wire.control("DELETE", f"/v1/episodes/{episode.id}")).status == 200
