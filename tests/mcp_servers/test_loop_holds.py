"""What is four mebibytes long holds up nobody: not said, not handed in, not given to a tool, in no shipped environment.

What was wrong here took minutes.
"""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Limits, Outcome, Sampling, Seat, Stop, ToolRequest
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.limits import Deadlines
from rollouthub.messages import Message, assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import SeatAddress, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from tests.gateway.outside import harness
from tests.loop_holds import SECONDS, SIZE, shortest_hold
from tests.mcp_servers.foreign import hosted, make

ENVIRONMENTS = (
    "arithmetic",
    "board_game",
    "code",
    "customer_service",
    "debate",
    "drawing",
    "math",
    "negotiation",
    "reasoning_gym",
    "visual",
)
MARKS = (
    "<svg/></svg>",
    " ",
    "\n",
    r"\boxed{1}",
    "<answer>",
    "please item $1,000 ",
    "[",
    "é",
    "\nAction: a\n",
    "</think>",
    "7",
)
VERSION = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "submit"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
Way = str
CASES = [
    pytest.param(name, way, marks=pytest.mark.soak if name == "code" and way != "submit" else [])
    for name in ENVIRONMENTS
    for way in ("say", "submit", "tool")
]
"""Each way of the environment `code` takes ten sandboxes, and one of them is always tried."""


class Huge:
    """Says one thing, or gives it to a tool."""

    name, version = "huge", "1"

    def __init__(self, way: Way, text: str, tool: str | None, arguments: str) -> None:
        self.config: dict[str, Any] = {}
        self._way, self._text, self._tool, self._arguments = way, text, tool, arguments

    async def play(self, seat: Seat) -> Stop:
        """Do it, once."""
        if self._tool is None:
            said: Message = assistant(self._text)
            seat.say(seat.messages, said)
            await seat.reply([said])
            return Stop.FINISHED
        request = ToolRequest(id="1", name=self._tool, arguments=self._arguments)
        seat.say(seat.messages, assistant("", request))
        await seat.call_tools([request])
        return Stop.FINISHED


def settings(name: str, folder: Path) -> dict[str, Any]:
    """Of an environment that has no tasks by itself."""
    if name == "reasoning_gym":
        return {"size": 1}
    if name == "debate":
        return {"judge": "quotes"}
    if name == "code":
        row = {
            "task_id": "one",
            "prompt": "def f() -> int:\n",
            "entry_point": "f",
            "canonical_solution": "    return 1\n",
        }
        test = "def check(candidate):\n    assert candidate() == 1\n"
        (folder / "rows.jsonl").write_text(json.dumps({**row, "test": test}) + "\n")
        return {"data": str(folder / "rows.jsonl"), "sandbox": "process", "check_seconds": 1}
    if name != "math":
        return {}
    (folder / "rows.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    return {"data": str(folder / "rows.jsonl")}


def tool_of(way: Way, tools: Any, text: str) -> tuple[str | None, str]:
    """The tool that the text is given to, and its arguments."""
    names = [tool.name for tool in tools if tool.name not in ("get_task", "reply", "listen", "submit")]
    name = "submit" if way == "submit" else names[0] if names else None
    schema = next((tool.input_schema for tool in tools if tool.name == name), None)
    if way == "say" or schema is None:
        return None, "{}"
    values = {key: text if place == 0 else "x" for place, key in enumerate(schema["properties"])}
    return name, json.dumps(values)


@pytest.mark.parametrize(("name", "way"), CASES)
async def test_four_mebibytes_hold_up_nobody(name: str, way: Way, tmp_path: Path) -> None:
    if name == "reasoning_gym":
        pytest.importorskip("reasoning_gym", reason="the extra reasoning-gym is not installed")
    found = find_environment(name)
    async with open_in_process(name, found.environment, configured(found, settings(name, tmp_path))) as host:
        card = await anext(aiter(host.tasks(host.info.splits[0], 0)))
        assert not isinstance(card, BadRow)
        for mark in MARKS:
            text = mark * (SIZE // (len(json.dumps(mark)) - 2))
            tool, arguments = tool_of(way, host.info.tools, text)
            held = await held_by(item_of(card, host, Huge(way, text, tool, arguments)))
            assert held < SECONDS, (mark, held)


async def held_by(sample: Sample) -> float:
    """For how long playing it holds the loop."""

    async def play(longest: list[float]) -> None:
        rollout = await Attempt(sample, 0, 0.0, lambda attempt: None).play()
        assert rollout.outcome is Outcome.SCORED

    return await shortest_hold(play)


def item_of(card: TaskCard, host: Any, agent: Huge) -> Sample:
    """One sample of a task."""
    context = SampleContext(
        run_id="run",
        host=host,
        environment=EnvironmentRef(name=host.info.name, version="1", digest="d"),
        agent=agent,
        agent_ref=AgentRef(name=agent.name, version=agent.version),
        model=None,
        sampling=Sampling(),
        limits=Limits(),
        deadlines=Deadlines(),
    )
    task = TaskRef(split=host.info.splits[0], id=card.public.id, digest=card.digest)
    return Sample(context, card, task, "group", "group-0", 0, 1, None)


async def test_four_mebibytes_over_mcp_hold_up_nobody(tmp_path: Path) -> None:
    found = find_environment("math")
    config = configured(found, settings("math", tmp_path))
    answer = r"\boxed{1}" + " " * (SIZE - 40) + r"x\boxed{2}"
    params = {"name": "submit", "arguments": {"answer": answer}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    async with open_in_process("math", found.environment, config) as host, harness(host=host) as made:

        async def submit(address: SeatAddress) -> None:
            headers = {"Content-Type": "application/json", "Accept": "application/json"} | VERSION
            async with made.http.post(address.agent_url, data=BytesIO(body), headers=headers) as response:
                assert response.status == 200, await response.text()

        async def play(longest: list[float]) -> None:
            rollout = await made.play(submit)
            assert (rollout.outcome, rollout.score and rollout.score.reward) == (Outcome.SCORED, 1.0)

        held = await shortest_hold(play)
        assert held < SECONDS


@pytest.mark.parametrize(
    "mark", [pytest.param(" ", marks=pytest.mark.soak), "\n", pytest.param("é", marks=pytest.mark.soak), "["]
)
@pytest.mark.parametrize("way", ["say", "tool", "long"])
async def test_four_mebibytes_to_or_from_a_foreign_server_hold_up_nobody(way: Way, mark: str, tmp_path: Path) -> None:
    file = make(tmp_path / "notes", server={"result_bytes": 8_000_000})
    async with hosted(file) as host:
        card = await host.find_task("test", "one", 0)
        text = mark * (SIZE // (len(json.dumps(mark)) - 2))
        arguments = json.dumps({"path": "note.txt", "text": text} if way == "tool" else {})
        tool = {"say": None, "tool": "notes_write"}.get(way, way)
        held = await held_by(item_of(card, host, Huge(way, text, tool, arguments)))
        assert held < SECONDS
