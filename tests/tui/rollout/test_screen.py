"""The screen of a rollout, driven by its keys."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, TextContent
from textual.pilot import Pilot

from rollouthub import Message, Rollout, Seat, Stop, ToolCall, Turn, aevaluate
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.messages import assistant
from rollouthub_tui.screens.rollout import RolloutScreen
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.picture_screen import PictureScreen
from rollouthub_tui.widgets.rollout.record_reader import place_of
from tests.gateway.sessions.haggle import Haggle
from tests.live.control.conftest import Guest, Watch
from tests.live.control.conftest import until as until_it_plays
from tests.store.records import record, write
from tests.tui.stage import Stage, stage, watched
from tests.tui.test_hostile import check
from tests.tui.walking import go, lines, settled, shows, until
from tests.yardstick import quiet_seconds


@asynccontextmanager
async def showing(
    run: WatchedRun, home: Path, rollout_id: str, *, attempt: int = 0, size: tuple[int, int] = (80, 24), **more: Any
) -> AsyncGenerator[tuple[Pilot[None], RolloutScreen]]:
    """The screen of a rollout, once there is something on it."""
    app = stage(lambda: RolloutScreen(run, rollout_id, attempt, more.get("among")), home)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, RolloutScreen)
        yield pilot, app.screen


@pytest.fixture
async def good(made_runs: Path, tmp_path: Path) -> WatchedRun:
    run = watched(made_runs / "runs" / "good", tmp_path)
    await run.open()
    return run


async def test_a_conversation_is_read_folded_searched_and_copied(good: WatchedRun, tmp_path: Path) -> None:
    among = good.feed.rollouts(where='env == "code"')
    place = place_of(good.feed.columns, "code-01-0", 0)
    assert place is not None
    reward = good.feed.columns.numbers["reward"][place]
    async with showing(good, tmp_path, "code-01-0", among=among) as (pilot, screen):
        check(pilot, "conversation")
        assert shows(pilot, "code/test/1 › sample 0 › turn 1  5 of 32")
        assert shows(pilot, f"✓ reward {reward:.3f} passed · finished · 3 turns")
        assert shows(pilot, "▾ turn 1")
        await go(pilot, "space", to="▸ turn 1")
        assert shows(pilot, "write_file")
        view = screen.query_one("#conversation", DocumentView)
        assert view.row_width + 1 == view.scrollable_content_region.width  # beside the cursor's mark and the scrollbar
        await go(pilot, "z", to="▸ turn 2")
        await go(pilot, "z", "J", to="▾ turn 2")
        await go(pilot, "slash", "r", "e", "t", "u", "r", "n", "enter", to="/return/ 1 of")
        first = screen.query_one("#conversation", DocumentView).cursor
        await go(pilot, "n", to="/return/ 2 of")
        await go(pilot, "N", to="/return/ 1 of")
        assert screen.query_one("#conversation", DocumentView).cursor == first
        await go(pilot, "escape")
        assert not shows(pilot, "/return/")
        await go(pilot, "2", to="tests")
        assert shows(pilot, " × 0.8 = ")
        check(pilot, "score")
        await go(pilot, "3", "right", "right", to="token 2 of 24 of turn 1: id")
        check(pilot, "tokens")
        await go(pilot, "4", to="verify")
        check(pilot, "timings")
        await go(pilot, "tab", to='"schema_version": 1')
        check(pilot, "record")
        assert '"rollout_id": "code-01-0"' in (screen.text_to_copy() or "")
        await go(pilot, "1", "right_square_bracket", to="6 of 32")
        await go(pilot, "left_square_bracket", "left_square_bracket", to="4 of 32")
        assert screen.target is not None
        await go(pilot, "d")
        assert isinstance(pilot.app, Stage)
        assert [opened[0] for opened in pilot.app.opened] == ["pair"]
        copied = screen.text_to_copy() or ""
        assert "turn 1" in copied and "call write_file" in copied


async def test_errors_are_gone_to_pictures_opened_and_what_was_sought_is_marked(
    good: WatchedRun, tmp_path: Path
) -> None:
    good.pattern = "geometric"
    async with showing(good, tmp_path, "code-01-0", size=(200, 60)) as (pilot, screen):
        assert shows(pilot, "/geometric/ 1 of ")
        check(pilot, "wide")
        await go(pilot, "escape", "g")
        view = screen.query_one("#conversation", DocumentView)
        while "[picture" not in view.row_text(view.cursor).plain:
            await pilot.press("j")
        await go(pilot, "enter")
        assert isinstance(pilot.app.screen, PictureScreen)
        assert shows(pilot, "▀▀▀▀")
        check(pilot, "picture")
        await go(pilot, "escape")
        (good.directory / "media").rename(tmp_path / "media")
        try:
            await go(pilot, "enter", to="its file is missing")
        finally:
            (tmp_path / "media").rename(good.directory / "media")


async def test_a_rude_rollout_stays_within_its_lines(made_runs: Path, tmp_path: Path) -> None:
    run = watched(made_runs / "hostile" / "run", tmp_path)
    await run.open()
    name = run.feed.columns.texts["rollout_id"][0]
    async with showing(run, tmp_path, name, attempt=run.feed.columns.wholes["attempt"][0]) as (pilot, _):
        for key in ("z", "z", "J", "W", "right", "G", "2", "3", "4", "5", "z", "G"):
            await go(pilot, key)
            check(pilot, key)


def long_turn(index: int, result: str) -> Turn:
    """A turn whose call gave a lot."""
    call = ToolCall(
        id=f"c{index}",
        name="look",
        arguments={"index": index},
        result=CallToolResult(content=[TextContent(text=result)], is_error=index == 7),
        started=float(index),
        seconds=0.5,
        bytes=len(result),
    )
    return Turn(
        index=index,
        parent_turn=index - 1 if index else None,
        messages=(Message(role="user", content="go on"),),
        response=Message(role="assistant", content="I *look*"),
        tool_calls=(call,),
        started=float(index),
    )


def large() -> list[Rollout]:
    """Of 2 MB, of 5,000 turns, and with a line of 1 MB."""
    lines_of_it = "\n".join(f"{number} some words 漢字 and more of them" for number in range(1000))
    first, second, broken = (long_turn(index, "ok") for index in (0, 1, 7))
    after = (second.model_copy(update={"index": index, "parent_turn": index - 1}) for index in range(1, 5000))
    return [
        record("g1-0", turns=[long_turn(index, lines_of_it) for index in range(50)]),
        record("g1-1", turns=[first, *(broken if turn.index == 7 else turn for turn in after)]),
        record("g1-2", turns=[long_turn(0, "x" * 1_000_000 + "needle")]),
    ]


async def test_large_conversations_open_at_once_and_their_tabs_too(tmp_path: Path) -> None:
    await write(tmp_path / "run", large())
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    for name in ("g1-0", "g1-1", "g1-2"):
        began = time.process_time()
        async with showing(run, tmp_path, name, size=(200, 60)) as (pilot, screen):
            assert shows(pilot, "▾ turn 1")
            assert quiet_seconds(time.process_time() - began) < 3.0, "it takes a fraction of this"
            view = screen.query_one("#conversation", DocumentView)
            if name == "g1-1":
                assert view.row_count < 5100
                await go(pilot, "n", to="▾ turn 8 ")
                assert shows(pilot, "1 error")
                await go(pilot, "4", "G", "5", "G", to="▸ turns[4999]")
            if name == "g1-2":
                assert shows(pilot, "more characters")
                await go(pilot, "slash", *"needle", "enter", to="needle")
                assert view.row_count > 5000
            check(pilot, name)


async def test_a_rollout_in_flight_is_followed_until_its_record_takes_its_place(watch: Watch, tmp_path: Path) -> None:
    guest = Guest("# Hello")
    async with watch(guest, limit=1) as playing:
        await until_it_plays(lambda: guest.waiting)
        run = WatchedRun(playing.directory, playing.environ)
        await run.open()
        async with showing(run, tmp_path, playing.ids()[0]) as (pilot, screen):
            await until(pilot, lambda: shows(pilot, "▶ in flight: tool · turn 1 of 50"))
            assert shows(pilot, "# Hello")
            assert shows(pilot, "a wall and a door")
            assert screen.target is not None and screen.target.place is None
            check(pilot, "live")
            await go(pilot, "2", to="known once it has ended")
            await go(pilot, "1")
            guest.gate.set()
            with anyio.fail_after(60):
                await playing.over.wait()
            await until(pilot, lambda: shows(pilot, "● reward 1.000"))
            assert shows(pilot, "▾ turn 2")
            assert screen.target.place is not None
            assert not any("in flight" in line for line in lines(pilot))


class Speaker(Guest):
    """Says something long each time it is asked to, until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.said = 0
        self.go = anyio.Event()

    async def play(self, seat: Seat) -> Stop:
        """Speak, wait."""
        conversation = list(seat.messages)
        while not self.gate.is_set():
            self.said += 1
            response = assistant(f"part {self.said} {'on and on ' * 6}\n" * 30)
            seat.say(conversation, response)
            conversation.append(response)
            await self.go.wait()
            self.go = anyio.Event()
        return Stop.FINISHED


async def test_its_end_is_followed_unless_one_reads_further_up(watch: Watch, tmp_path: Path) -> None:
    guest = Speaker()
    async with watch(guest, limit=1) as playing:
        await until_it_plays(lambda: guest.said)
        run = WatchedRun(playing.directory, playing.environ)
        await run.open()
        async with showing(run, tmp_path, playing.ids()[0]) as (pilot, screen):
            await until(pilot, lambda: shows(pilot, "part 1"))
            await go(pilot, "g")
            guest.go.set()
            await until(pilot, lambda: shows(pilot, "↓ 1 new turn"))
            assert not shows(pilot, "part 2")
            await go(pilot, "G", to="part 2")
            await until(pilot, lambda: not shows(pilot, "new turn"))
            guest.go.set()
            await until(pilot, lambda: shows(pilot, "part 3"))
            check(pilot, "followed")
            await go(pilot, "2", to="known once it has ended")
            guest.go.set()
            await until(pilot, lambda: screen.query_one("#conversation", DocumentView).sections[3:])
            await go(pilot, "1", "g", "G", to=f"part 4 {'on and on ' * 6}")
        guest.gate.set()
        guest.go.set()


async def test_without_a_hub_it_says_where_it_was(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-1")])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    async with showing(run, tmp_path, "g1-9") as (pilot, _):
        assert shows(pilot, "the run holds no record of it")
        assert shows(pilot, "no hub plays run now")
        for key in ("2", "3", "4", "5", "n", "J", "space", "enter", "d", "z", "y"):
            await go(pilot, key)
        check(pilot, "nothing")


async def test_a_conversation_of_seats_says_who_spoke_and_who_played_them(tmp_path: Path) -> None:
    players = {"seller": "mock/say?text=eight"}
    await aevaluate(Haggle, "mock/say?text=seven", seats=players, directory=tmp_path / "run", progress=False)
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    (rollout_id,) = run.feed.columns.texts["rollout_id"]
    async with showing(run, tmp_path, rollout_id, size=(120, 24)) as (pilot, _):
        assert shows(pilot, "mock/say?text=seven · seller: mock/say?text=eight")
        assert shows(pilot, "▾ turn 1 · buyer")
        assert shows(pilot, "turn 2 · seller")
        await go(pilot, "2", to="seller")
        check(pilot, "score")
