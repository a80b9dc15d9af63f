"""The loops, played in a small world."""

import pytest

from rollouthub import Outcome, Stop
from rollouthub_agents.react import ReAct, ReActConfig
from rollouthub_agents.single_turn import SingleTurn
from rollouthub_agents.tool_loop import ToolLoop
from tests.engine.conftest import Player, TellModel, attempt, calls

__all__ = ["attempt"]


async def test_react_acts_observes_and_submits(attempt: Player) -> None:
    model = TellModel(
        [
            'Thought: twice\nAction: add\nAction Input: {"step": 1}',
            'Action: add\nAction Input: {"step": 1}',
            "Thought: done\nFinal Answer: 2",
        ]
    )
    rollout = await attempt(ReAct(), model).play()
    assert rollout.reward == 1.0
    assert rollout.answer == "2"
    assert rollout.stop is Stop.SUBMITTED
    assert rollout.turns[1].messages[0].text == "Observation: 1"
    assert not model.requests[0].tools
    assert "add: Add to the counter." in model.requests[0].messages[0].text


async def test_react_takes_words_as_the_answer_after_enough_of_them(attempt: Player) -> None:
    model = TellModel(["hm"])
    rollout = await attempt(ReAct(ReActConfig(max_malformed=2)), model).play()
    assert len(model.requests) == 3
    assert rollout.answer == "hm"
    assert rollout.outcome is Outcome.SCORED


async def test_react_tells_the_model_of_a_malformed_input(attempt: Player) -> None:
    model = TellModel(["Action: add\nAction Input: two", "Final Answer: 0"])
    rollout = await attempt(ReAct(), model).play()
    assert "not JSON" in rollout.turns[1].messages[0].text


async def test_single_turn_offers_no_tools(attempt: Player) -> None:
    model = TellModel(["42"])
    rollout = await attempt(SingleTurn(), model).play()
    assert len(rollout.turns) == 1
    assert not model.requests[0].tools
    assert rollout.stop is Stop.FINISHED


async def test_tool_loop_hides_the_contracts_own_tools(attempt: Player) -> None:
    model = TellModel(["done"])
    await attempt(ToolLoop(), model).play()
    assert [tool.name for tool in model.requests[0].tools] == ["add", "wait", "submit"]


@pytest.mark.parametrize("count", [1, 5])
async def test_tool_loop_runs_all_calls_of_a_turn(attempt: Player, count: int) -> None:
    model = TellModel([calls(*[("add", "{}")] * count), "done"])
    rollout = await attempt(ToolLoop(), model, goal=count).play()
    assert rollout.reward == 1.0
    assert len(rollout.turns[0].tool_calls) == count
