"""The tool list of an environment: its own tools, then the contract's, pinned by a digest."""

import pytest

from rollouthub import tool
from rollouthub.hosting.local.toolbox import Toolbox
from tests.hosting.local.worlds import Interview, Market, Workshop, World


def names(environment: type[World]) -> list[str]:
    return [tool.name for tool in Toolbox(environment).tools]


def test_a_task_with_an_answer_has_submit() -> None:
    assert names(World) == ["get_task", "submit"]


def test_a_task_without_an_answer_has_no_submit() -> None:
    class Open(World):
        submits = False

    assert names(Open) == ["get_task"]


def test_a_world_with_a_user_has_reply() -> None:
    assert names(Interview) == ["get_task", "reply", "submit"]


def test_the_pinned_list_is_the_union_of_all_seats_in_order() -> None:
    assert names(Market) == ["bid", "offer", "look", "get_task", "submit"]


def test_the_digest_is_the_same_every_time_and_changes_with_any_tool() -> None:
    class Described(Market):
        @tool(seats=("buyer",))
        async def bid(self, price: int) -> dict[str, list[int]]:
            """Offer to buy."""
            return self.book

    digests = {Toolbox(kind).digest for kind in (Market, Market, Described, Workshop)}
    assert len(digests) == 3


def test_a_tool_may_not_take_the_place_of_the_contracts() -> None:
    class Usurper(World):
        @tool
        async def submit(self, answer: str) -> str:
            return answer

    with pytest.raises(TypeError, match="'submit' is a tool of the contract"):
        Toolbox(Usurper)


def test_a_tool_for_a_seat_that_is_not_there_is_refused() -> None:
    class Lonely(World):
        @tool(seats=("referee",))
        async def whistle(self) -> None: ...

    with pytest.raises(TypeError, match="no seat is named 'referee'"):
        Toolbox(Lonely)
