"""Snapshots travel, and no two episodes share a world."""

import base64

import anyio
from pydantic import JsonValue

from rollouthub import BadRow, Deadlines
from tests.hosting.local.worlds import Market, Workshop, call, host_of, opened, world_of


async def test_a_snapshot_restores_the_world_in_a_new_episode() -> None:
    async with opened(Market) as episode:
        await call(episode, "bid", "buyer", price=3)
        state = await episode.snapshot()
    async with opened(Market, state=state) as again:
        assert (await call(again, "look", "seller")).structured_content == {"bids": [3], "offers": []}
        assert again.id != episode.id


async def test_a_snapshot_does_not_change_with_its_world() -> None:
    async with opened(Market) as episode:
        state = await episode.snapshot()
        await call(episode, "bid", "buyer", price=3)
    assert state == {"bids": [], "offers": []}


async def test_two_worlds_restored_from_one_snapshot_share_nothing() -> None:
    state: JsonValue = {"bids": [1], "offers": []}
    async with opened(Market, state=state) as one, opened(Market, state=state) as other:
        await call(one, "bid", "buyer", price=2)
        assert world_of(other, Market).book == {"bids": [1], "offers": []}
    assert state == {"bids": [1], "offers": []}


async def test_parallel_episodes_of_one_task_never_share_state() -> None:
    host = host_of(Workshop)
    (card,) = host.cards("test", 0)
    assert not isinstance(card, BadRow)
    seen: dict[int, object] = {}

    async def play(number: int, both: anyio.Event) -> None:
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            await episode.seats["agent"].call_tool("note", {"text": f"first of {number}"})
            await both.wait()
            seen[number] = (await episode.seats["agent"].call_tool("note", {"text": "second"})).content
            await episode.seats["agent"].call_tool("submit", {"answer": str(number)})
            assert episode.answer == str(number)

    with anyio.fail_after(5):
        both = anyio.Event()
        async with anyio.create_task_group() as players:
            players.start_soon(play, 1, both)
            players.start_soon(play, 2, both)
            await anyio.wait_all_tasks_blocked()
            both.set()
    for number in (1, 2):
        assert f'["first of {number}","second"]' in str(seen[number])


async def test_sealing_one_episode_leaves_the_other_open() -> None:
    async with opened(Workshop) as one, opened(Workshop) as other:
        await one.seal()
        assert (one.is_sealed, other.is_sealed) == (True, False)


async def test_tokens_and_ids_are_unguessable_and_never_repeated() -> None:
    tokens: set[str] = set()
    for _ in range(100):
        async with opened(Market) as episode:
            found = [seat.token for seat in episode.seats.values()] + [episode.id]
            assert all(len(base64.urlsafe_b64decode(token)) * 8 >= 128 for token in found[:2])
            assert len(bytes.fromhex(episode.id)) * 8 >= 128
            tokens.update(found)
    assert len(tokens) == 300
