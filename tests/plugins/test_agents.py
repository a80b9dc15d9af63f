"""The contract of agents: whatever the entry points name, and one that a stranger wrote."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from rollouthub import Message, Outcome, Seat, Stop, ToolRequest
from rollouthub.engine.agent_kind import is_loop, needs_model
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.agents import find_agent
from rollouthub.plugins.entry_points import AGENTS
from rollouthub.protocols import Agent
from tests.engine.conftest import Player, TellModel, attempt, calls
from tests.export.kept import keep
from tests.export.made import rollout
from tests.plugins.stranger import names_of, register

__all__ = ["attempt"]

STRANGER = "acme/adder"
ELSEWHERE = {"external", "human", "replay"}
"""They play a program, a person, a stored run; tests of their own play them (`tests/agents`)."""


def settings(name: str, folder: Path) -> dict[str, JsonValue]:
    """What an agent needs to be made at all."""
    if name == "replay":
        return {"run": str(folder / "run") if (folder / "run").exists() else str(keep(folder / "run", rollout()))}
    return {"command": ["true"]} if name == "external" else {}


class Adder:
    """Adds twice and says so: written from the protocol alone."""

    name = STRANGER
    version = "1"
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        asked = Message(role="assistant", tool_requests=(ToolRequest(id="1", name="add", arguments='{"step": 2}'),))
        seat.say(seat.messages, asked)
        await seat.call_tools(asked.tool_requests)
        return Stop.FINISHED


@pytest.fixture(params=names_of(AGENTS, STRANGER))
def agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Each agent, made of the settings it needs and no more."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, AGENTS, STRANGER, f"{__name__}:Adder")
    return find_agent(request.param, settings(request.param, tmp_path))


def test_an_agent_says_who_it_is(agent: Agent) -> None:
    assert agent.name
    assert agent.version
    assert isinstance(agent.config, dict)
    assert needs_model(agent) or not is_loop(agent)


async def test_one_instance_plays_many_episodes_at_once_and_keeps_no_state(agent: Agent, attempt: Player) -> None:
    if agent.name in ELSEWHERE:
        return
    said: list[Any] = [calls(("add", '{"step": 2}')), "Final Answer: done"]
    found: list[Any] = []

    async def play() -> None:
        found.append(await attempt(agent, TellModel(said)).play())

    await play()
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(play)
    assert {each.outcome for each in found} == {Outcome.SCORED}
    assert len({(each.reward, each.stop, len(each.turns)) for each in found}) == 1


def test_settings_it_does_not_know_are_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="speeed"):
        find_agent(agent.name, {**settings(agent.name, tmp_path), "speeed": 1})


def test_a_wrong_name_is_met_with_the_right_one(agent: Agent) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{agent.name}'"):
        find_agent(f"{agent.name}s", {})


class Nobody:
    """It cannot play."""

    name = "nobody"


def test_what_is_no_agent_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, AGENTS, "acme/nobody", f"{__name__}:Nobody")
    with pytest.raises(ConfigError, match=r"'acme/nobody' .* does not follow rollouthub.protocols.Agent"):
        find_agent("acme/nobody", {})
