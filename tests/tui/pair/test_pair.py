"""Two rollouts side by side: what differs is marked, what is equal is folded, and keys lead on."""

from collections.abc import Sequence
from pathlib import Path

from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Outcome, Rollout, Score, ToolCall, Turn
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.score import Component
from rollouthub_tui.screens.pair import PairScreen
from rollouthub_tui.widgets.pair.diff_view import PairView
from tests.store.records import record, write
from tests.tui.led import led, lines, settle, shown, told


def turns(texts: Sequence[str]) -> tuple[Turn, ...]:
    """A turn for each text."""
    result = CallToolResult(content=[TextContent(text="\x1b[2J3\r\nok")])
    call = ToolCall(id="c", name="[b]look", arguments={"at": "\u202e"}, result=result, started=0, seconds=0, bytes=1)
    return tuple(
        Turn(index=index, messages=(), response=Message(role="assistant", content=text), tool_calls=(call,))
        for index, text in enumerate(texts)
    )


def sample(number: int, texts: Sequence[str], reward: float) -> Rollout:
    """A sample of one group."""
    parts = {"correct": Component(value=reward - 0.25), "form": Component(value=0.25)}
    return record(f"g1-{number}", turns=turns(texts), score=Score(reward=reward, components=parts))


async def opened(folder: Path, records: Sequence[Rollout]) -> WatchedRun:
    """A run of these records, open."""
    await write(folder / "run", records)
    run = WatchedRun(folder / "run", {"XDG_RUNTIME_DIR": "/nonexistent"})
    await run.open()
    return run


ALIKE = [f"step {number}\nand so on" for number in range(5)]


async def test_equal_beginnings_are_folded_and_differences_are_marked_and_gone_through(tmp_path: Path) -> None:
    run = await opened(
        tmp_path,
        [
            sample(0, [*ALIKE, "the answer is 4"], 1.25),
            sample(1, [*ALIKE, "the answer is 5", "sorry"], 0.25),
            sample(2, ["nothing"], 0.25),
        ],
    )
    async with led(PairScreen(run, 0, 1), size=(120, 30)) as (pilot, where):
        view = pilot.app.screen.query_one(PairView)
        text = shown(pilot)
        assert "39 equal lines" in text
        changed = next(line for line in lines(pilot) if "answer is 4" in line)
        assert (changed.count("~"), "answer is 5" in changed) == (2, True)
        new = next(line for line in lines(pilot) if "sorry" in line)
        assert "│" in new.partition("+")[0]
        assert "◐ partly solved, reward 0.250" in told(pilot, "heading")
        assert next(line for line in lines(pilot) if "── turn" in line).split()[0] == "6"
        assert "reward B − A -1.000: correct 1.000 → 0.000" in told(pilot, "heading")
        await pilot.press("n", "n")
        assert "difference 2 of" in told(pilot, "title")
        await pilot.press("space")
        assert "step 0" in shown(pilot)
        await pilot.press("z")
        assert "equal lines" not in shown(pilot)
        assert view.virtual_size.height == len(view.difference)
        await pilot.press("enter")
        assert where.pop() == ("rollout", run.directory, "g1-1", 0)
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert "B sample 2 · g1-2" in told(pilot, "heading")
        await pilot.press("tab", "enter")
        assert where.pop() == ("rollout", run.directory, "g1-0", 0)
    run.close()


async def test_a_narrow_screen_shows_both_in_one_column_and_nothing_raw(tmp_path: Path) -> None:
    rude = "\x1b]0;owned\x07[red]no\u202e" + "x" * 200
    run = await opened(tmp_path, [sample(0, ["fine\nyes"], 1.25), sample(1, [f"fine\n{rude}"], 0.25)])
    async with led(PairScreen(run, 0, 1)) as (pilot, _):
        found = [line.split() for line in lines(pilot)]
        assert ["-", "yes"] in found
        assert any(line[:1] == ["+"] and line[1].startswith("[red]noxxx") for line in found)
        assert any("calls [b]look" in " ".join(line) for line in found)
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown(pilot))
        view = pilot.app.screen.query_one(PairView)
        before = view.virtual_size.height
        await pilot.resize_terminal(120, 30)
        await settle(pilot)
        assert view.is_double
        assert view.virtual_size.height < before
    run.close()


async def test_what_cannot_be_read_any_more_is_said(tmp_path: Path) -> None:
    run = await opened(tmp_path, [sample(0, ["a"], 1.25), record("g1-1", outcome=Outcome.MODEL_FAILED, turns=())])
    async with led(PairScreen(run, 0, 1)) as (pilot, _):
        assert "infrastructure fault" in shown(pilot)
        assert "reward B − A" not in told(pilot, "heading")
        (run.directory / "run.db").write_bytes(b"no database" * 99)
        await pilot.press("left_square_bracket")
        await settle(pilot)
        assert pilot.app.screen.query_one(PairView).display
    async with led(PairScreen(run, 0, 1)) as (pilot, _):
        assert "These rollouts cannot be shown" in shown(pilot)
        await pilot.press("n", "z", "space", "tab")
    run.close()
