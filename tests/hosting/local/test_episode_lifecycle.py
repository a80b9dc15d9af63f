"""Opening and closing: every failure typed, the world given back exactly once."""

import anyio
import pytest

from rollouthub import BadRow, Deadlines, TaskError
from rollouthub.environment import AnyEnvironment
from rollouthub.errors import NotOffered
from rollouthub.hosting import InProcessHost
from rollouthub.protocols import TaskCard
from tests.hosting.local.worlds import CANARY, Workshop, World, WorldConfig, call, opened, text_of, world_of


def only_task(host: InProcessHost) -> TaskCard:
    card = next(iter(host.cards("test", 0)))
    assert not isinstance(card, BadRow)
    return card


async def open_and_leave(config: WorldConfig, deadlines: Deadlines, world: AnyEnvironment = World) -> None:
    host = InProcessHost("world", world, config)
    with anyio.fail_after(5):
        async with host.open(only_task(host), seed=0, deadlines=deadlines):
            config.journal.append("open")


async def test_an_episode_is_set_up_opened_and_closed_in_that_order() -> None:
    config = WorldConfig()
    await open_and_leave(config, Deadlines())
    assert config.journal == ["setup", "open", "close"]


async def test_a_setup_that_raises_is_the_environments_fault_and_closed() -> None:
    config = WorldConfig(setup="raise")
    with pytest.raises(TaskError, match=f"setup of task 'one' raised OSError: no room for {CANARY}") as error:
        await open_and_leave(config, Deadlines())
    assert isinstance(error.value.__cause__, OSError)
    assert config.journal == ["setup", "close"]


async def test_a_setup_past_its_deadline_is_the_environments_fault_and_closed() -> None:
    config = WorldConfig(setup="hang")
    with pytest.raises(TaskError, match=r"not done after 0\.05 s"):
        await open_and_leave(config, Deadlines(setup=0.05))
    assert config.journal == ["setup", "close"]


async def test_a_setup_cancelled_from_outside_is_closed() -> None:
    config = WorldConfig(setup="hang")
    async with anyio.create_task_group() as opener:
        opener.start_soon(open_and_leave, config, Deadlines())
        await anyio.wait_all_tasks_blocked()
        opener.cancel_scope.cancel()
    assert config.journal == ["setup", "close"]


async def test_an_episode_cancelled_from_outside_is_closed() -> None:
    config = WorldConfig()
    host = InProcessHost("world", World, config)

    async def play() -> None:
        async with host.open(only_task(host), seed=0, deadlines=Deadlines()):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as player:
        player.start_soon(play)
        await anyio.wait_all_tasks_blocked()
        player.cancel_scope.cancel()
    assert config.journal == ["setup", "close"]


async def test_a_world_that_cannot_even_be_made_is_the_environments_fault() -> None:
    class Unmade(World):
        def __init__(self, *arguments: object) -> None:
            raise LookupError("no such map")

    with pytest.raises(TaskError, match="task 'one' could not be opened: LookupError: no such map"):
        await open_and_leave(WorldConfig(), Deadlines(), Unmade)


async def test_opening_messages_that_raise_are_the_environments_fault_and_closed() -> None:
    class Speechless(World):
        def messages(self, seat: str) -> list[object]:  # type: ignore[override]
            raise LookupError(seat)

    config = WorldConfig()
    with pytest.raises(TaskError, match="LookupError: agent"):
        await open_and_leave(config, Deadlines(), Speechless)
    assert config.journal == ["setup", "close"]


async def test_closing_again_does_nothing() -> None:
    async with opened(World) as episode:
        journal = world_of(episode, World).config.journal
        await episode.close()
        await episode.close()
    assert journal == ["setup", "close"]


async def test_closing_seals() -> None:
    async with opened(Workshop) as episode:
        seat = episode.seats["agent"]
        await episode.close()
        assert episode.is_sealed
        assert not episode.seats
        assert text_of(await seat.call_tool("note", {"text": "x"})) == "The episode is closed."


@pytest.mark.parametrize(
    ("close", "told"), [("raise", "close raised OSError: still in use"), ("hang", r"not done after 0\.05 s")]
)
async def test_a_close_that_fails_is_told_once(close: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(World, close=close, deadlines=Deadlines(close=0.05)) as episode:
        with pytest.raises(TaskError, match=told):
            await episode.close()
    assert caplog.text == ""


async def test_a_close_that_fails_on_the_way_out_is_logged_and_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyError, match="the caller's own"):
        async with opened(World, close="raise"):
            raise KeyError("the caller's own")
    assert "still in use" in caplog.text


async def test_the_world_has_its_time_to_close_after_a_call_that_ignored_the_seal() -> None:
    class Slow(Workshop):
        async def close(self) -> None:
            await anyio.lowlevel.checkpoint()
            await super().close()

    async with opened(Slow, deadlines=Deadlines(close=0.5)) as episode:
        world = world_of(episode, Slow)
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, episode, "ignore")
            await world.is_waiting.wait()
            await episode.close()
            world.may_finish.set()
        assert world.config.journal == ["setup", "close"]


async def test_a_state_where_none_can_be_restored_is_not_offered() -> None:
    with pytest.raises(NotOffered, match="World restores no snapshots"):
        async with opened(World, state={"any": 1}):
            pass


async def test_a_snapshot_where_none_is_taken_is_not_offered() -> None:
    async with opened(World) as episode:
        with pytest.raises(NotOffered, match="World takes no snapshots"):
            await episode.snapshot()
