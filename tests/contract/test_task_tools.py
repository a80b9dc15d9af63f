"""Tools of single tasks: shown at their seats alone, in process and over the wire, and kept with the rollout."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from rollouthub import BadRow, Deadlines
from rollouthub.hosting.open_host import open_in_process, open_served
from rollouthub.messages import assistant
from rollouthub.protocols import EnvironmentHost
from tests.contract.labels import Labels

FILE = Path(__file__).parent / "labels.py"


@pytest.fixture(params=["in process", "served"])
async def host(request: pytest.FixtureRequest) -> AsyncGenerator[EnvironmentHost]:
    """The environment, in this process and in one of its own."""
    if request.param == "served":
        async with open_served(str(FILE), {}) as host:
            yield host
    else:
        async with open_in_process("labels", Labels, Labels.config_type()) as host:
            yield host


async def test_each_task_offers_its_own_tools_beside_those_of_the_class(host: EnvironmentHost) -> None:
    cards = [card async for card in host.tasks("test", 0)]
    assert not [card for card in cards if isinstance(card, BadRow)]
    assert "mark" not in [tool.name for tool in host.info.tools]
    for name in ("colour", "shape"):
        card = await host.find_task("test", name, 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            assert seat.task_tools == {"mark"}
            (mark,) = [tool for tool in seat.tools if tool.name == "mark"]
            assert list(mark.input_schema["properties"]) == [name]
            assert not (await seat.call_tool("mark", {name: "x"})).is_error
            assert (await seat.call_tool("mark", {"size": "x"})).is_error
    card = await host.find_task("test", "none", 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == frozenset()
        assert (await seat.call_tool("mark", {"colour": "x"})).is_error


async def test_a_turn_may_bring_further_tools(host: EnvironmentHost) -> None:
    card = await host.find_task("test", "late", 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == frozenset()
        assert (await seat.call_tool("mark", {"late": "x"})).is_error
        assert await seat.reply([assistant("What with?")])
        assert seat.task_tools == {"mark"}
        assert [tool.name for tool in seat.tools if tool.name in seat.task_tools] == ["mark"]
        assert not (await seat.call_tool("mark", {"late": "x"})).is_error
        assert await seat.reply([assistant("Done.")]) is None
        assert seat.task_tools == {"mark"}
