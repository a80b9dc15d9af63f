"""Whole runs against a model server that fails, refuses, hangs, slows down and dies: they complete, with the right
outcomes, and the number of calls in flight follows."""

import anyio
import pytest

from rollouthub.engine.run_request import Retries
from rollouthub.limits import Deadlines
from rollouthub.rollout import Outcome
from tests.pressure.conftest import Play, Played
from tests.pressure.hostile import fails, hangs, hostile_server, refuses, slow, well


async def test_three_failed_calls_in_ten_cost_no_rollout(play: Play) -> None:
    async with hostile_server(0.0) as server:
        server.mood = fails(0.3)
        played = await play(server, 16, 16, max_tries=8)
    played.check(16)
    assert played.outcomes == {Outcome.SCORED: 16}
    assert server.asked > 32


async def test_a_server_that_always_fails_leaves_rollouts_unscored_and_never_zero(play: Play) -> None:
    async with hostile_server(0.0) as server:
        server.mood = fails(1.0)
        played = await play(server, 2, 2, max_tries=1, retries=Retries(infrastructure=1))
    played.check(2)
    assert set(played.outcomes) == {Outcome.MODEL_FAILED}
    assert len(played.rollouts) == 4
    assert {fault.boundary for each in played.rollouts for fault in each.faults} == {"model"}


@pytest.mark.parametrize("after", [None, 0.3])
async def test_a_storm_of_refusals_is_waited_out_without_losing_a_rollout(play: Play, after: float | None) -> None:
    lows: list[int] = []

    async def meddle(played: Played) -> None:
        await played.until(lambda: server.asked > 100, 60)
        server.mood = refuses(after)
        asked = server.asked
        await played.until(lambda: played.limit == 0, 30)
        await anyio.sleep(0.2)
        lows.append(server.asked - asked)
        server.mood = well

    async with hostile_server() as server:
        played = await play(server, 160, 64, meddle)
    played.check(160)
    assert played.outcomes == {Outcome.SCORED: 160}
    assert len(played.rollouts) == 160
    assert lows[0] <= 3 * 64


async def test_the_limit_finds_the_number_a_server_takes(play: Play) -> None:
    limits: list[int] = []

    async def meddle(played: Played) -> None:
        while True:
            await anyio.sleep(0.1)
            limits.append(played.limit)
            if len(played.rollouts) > 80:
                return

    async with hostile_server(0.05) as server:
        server.mood = refuses(0.0, lambda: server.in_flight > 12)
        played = await play(server, 100, 64, meddle, max_tries=30)
    played.check(100)
    assert played.outcomes == {Outcome.SCORED: 100}
    assert min(limits) <= 32


async def test_a_server_that_hangs_makes_faults_in_time_and_is_sent_little(play: Play) -> None:
    async with hostile_server() as server:
        server.mood = hangs
        deadlines = Deadlines(model_call=0.3)
        played = await play(server, 6, 3, max_tries=2, deadlines=deadlines, retries=Retries(infrastructure=0))
    played.check(6)
    assert played.outcomes == {Outcome.MODEL_FAILED: 6}


async def test_a_server_that_dies_and_comes_back_costs_time_and_no_rollout(play: Play) -> None:
    seen: list[bool] = []

    async def meddle(played: Played) -> None:
        await played.until(lambda: server.asked > 60, 60)
        await server.die()
        await played.until(lambda: played.router.status()[0].is_paused, 30)
        seen.append(True)
        await server.rise()
        await played.until(lambda: not played.router.status()[0].is_paused, 60)
        seen.append(True)

    async with hostile_server() as server:
        played = await play(server, 80, 32, meddle, max_tries=8)
    played.check(80)
    assert seen == [True, True]
    assert played.outcomes == {Outcome.SCORED: 80}


# --- longer ones ------------------------------------------------------------------------------------------------


@pytest.mark.soak
async def test_tenfold_latency_is_followed_within_seconds_and_so_is_its_end(play: Play) -> None:
    async def meddle(played: Played) -> None:
        await anyio.sleep(8)
        assert played.limit == played.router.limit
        server.mood = slow(1.8)
        await played.until(lambda: played.limit <= 40, 10)
        server.mood = well
        await played.until(lambda: played.limit > 1000, 25)
        played.stop.set()

    async with hostile_server(0.2) as server:
        played = await play(server, 100_000, 64, meddle, seconds=90)
    assert {each.outcome for each in played.rollouts} == {Outcome.SCORED}


@pytest.mark.soak
async def test_a_server_that_hangs_for_a_while_is_left_alone_and_then_used_again(play: Play) -> None:
    async def meddle(played: Played) -> None:
        await anyio.sleep(5)
        server.mood = hangs
        await played.until(lambda: played.limit <= 20, 15)
        asked = server.asked
        await anyio.sleep(3)
        assert server.asked - asked <= 6
        server.mood = well
        await played.until(lambda: played.limit > 1000, 30)
        played.stop.set()

    async with hostile_server(0.05) as server:
        deadlines = Deadlines(model_call=25.0)
        played = await play(server, 100_000, 64, meddle, seconds=150, deadlines=deadlines, max_tries=6)
    played.check(len(played.last))
    assert set(played.outcomes) == {Outcome.SCORED}


@pytest.mark.soak
async def test_all_of_it_in_turn(play: Play) -> None:
    async def meddle(played: Played) -> None:
        for mood in (fails(0.3), refuses(None), well, refuses(2.0), slow(1.0), well, hangs, well):
            server.mood = mood
            await anyio.sleep(3)
        for _ in range(3):
            await server.die()
            await anyio.sleep(2)
            await server.rise()
            await anyio.sleep(3)

    async with hostile_server(0.05) as server:
        deadlines = Deadlines(model_call=30.0)
        played = await play(server, 6_000, 128, meddle, seconds=240, deadlines=deadlines, max_tries=12)
    played.check(6_000)
    assert set(played.outcomes) <= {Outcome.SCORED, Outcome.MODEL_FAILED}
    assert played.outcomes[Outcome.SCORED] >= 5_990
