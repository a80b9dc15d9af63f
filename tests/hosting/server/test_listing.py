"""Task listings: page by page, each split read once where it is read in order."""

from urllib.parse import quote

import pytest

from rollouthub.hosting.control_wire import BadCard, Card, CardPage
from rollouthub.hosting.server import task_pages as listing
from tests.hosting.local.worlds import CANARY, World
from tests.hosting.server.wire_client import WireClient, served
from tests.hosting.server.worlds import Shelf


async def page(wire: WireClient, cursor: str | None = None, **query: object) -> CardPage:
    """One page."""
    query = query if cursor is None else {**query, "cursor": quote(cursor)}
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return CardPage.model_validate_json((await wire.control("GET", f"/v1/tasks?{asked}")).body)


def ids(cards: CardPage) -> list[object]:
    """The ids on a page."""
    return [card.public["id"] for card in cards.cards if isinstance(card, Card)]


async def test_the_pages_of_a_split_hold_every_task_once_and_in_order() -> None:
    async with served(Shelf, size=25) as wire:
        found: list[object] = []
        cursor = None
        while True:
            cards = await page(wire, cursor, limit=10)
            found += ids(cards)
            cursor = cards.next_cursor
            if cursor is None:
                break
        assert found == [str(number) for number in range(25)]
        opened = await wire.open(task={"id": "0", "split": "test"})
        # Once for the pages, once to find the task.
        assert wire.episode(opened.id).environment.config.readings == ["test:0", "test:0"]


async def test_a_full_last_page_is_the_last() -> None:
    async with served(Shelf, size=20) as wire:
        first = await page(wire, limit=10)
        assert (await page(wire, first.next_cursor, limit=10)).next_cursor is None


async def test_an_empty_split_is_one_empty_page() -> None:
    async with served(Shelf, size=0) as wire:
        assert await page(wire) == CardPage(cards=())


async def test_a_cursor_asked_for_again_gives_the_same_page() -> None:
    async with served(Shelf, size=30) as wire:
        first = await page(wire, limit=10)
        again = [await page(wire, first.next_cursor, limit=10) for _ in range(3)]
        assert [ids(cards) for cards in again] == [[str(number) for number in range(10, 20)]] * 3
        assert ids(await page(wire, again[0].next_cursor, limit=10)) == [str(number) for number in range(20, 30)]


async def test_half_read_splits_are_forgotten_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "READERS", 2)
    async with served(Shelf, size=30) as wire:
        firsts = [await page(wire, seed=seed, limit=10) for seed in range(5)]
        for seed, first in enumerate(firsts):
            second = await page(wire, first.next_cursor, limit=10)
            assert ids(second) == [str(number) for number in range(10, 20)]
            assert all(card.public["prompt"] == str(seed) for card in second.cards if isinstance(card, Card))


async def test_a_page_ends_where_it_gets_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_BYTES", 1000)
    async with served(Shelf, size=30) as wire:
        first = await page(wire, limit=30)
        assert 0 < len(first.cards) < 30
        assert ids(await page(wire, first.next_cursor))[0] == str(len(first.cards))


async def test_a_bad_row_is_listed_as_what_it_is() -> None:
    async with served(Shelf, size=2, bad=True) as wire:
        cards = (await page(wire)).cards
        assert cards[1] == BadCard(problem="no answer", file="rows.jsonl", line=2)


async def test_a_cursor_belongs_to_its_split() -> None:
    async with served(Shelf, size=30) as wire:
        first = await page(wire, limit=10)
        assert first.next_cursor is not None
        answer = await wire.control("GET", f"/v1/tasks?split=odd&cursor={quote(first.next_cursor)}")
        assert answer.status == 400


async def test_a_listing_holds_no_answers() -> None:
    async with served(World) as wire:
        answer = await wire.control("GET", "/v1/tasks")
        assert "yes" not in answer.body.decode().replace("Say yes.", "")
        assert CANARY not in answer.body.decode()
