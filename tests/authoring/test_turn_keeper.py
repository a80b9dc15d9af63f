"""Whose turn it is, and who waits for it."""

import anyio
import pytest

from rollouthub.authoring.turn_keeper import TurnKeeper


async def test_the_turn_goes_round_and_whoever_waits_wakes_for_its_own() -> None:
    turns = TurnKeeper(("a", "b", "c"))
    came: list[str] = []

    async def take(seat: str) -> None:
        while await turns.wait(seat):
            came.append(seat)
            if len(came) == 5:
                turns.end()
            turns.pass_on()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as players:
            for seat in ("c", "b", "a"):
                players.start_soon(take, seat)
    assert came == ["a", "b", "c", "a", "b"]


async def test_who_waits_hears_that_all_is_over() -> None:
    turns = TurnKeeper(("a", "b"))
    heard: list[bool] = []

    async def wait() -> None:
        heard.append(await turns.wait("b"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            turns.end()
    assert heard == [False]
    assert not await turns.wait("a")


async def test_an_earlier_turn_comes_back() -> None:
    turns = TurnKeeper(("a", "b"))
    turns.end()
    turns.put("b", is_over=False)
    assert await turns.wait("b")
    with pytest.raises(ValueError, match="there is no seat 'z'; there are a, b"):
        turns.put("z", is_over=False)
