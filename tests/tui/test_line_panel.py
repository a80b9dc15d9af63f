"""A panel of lines paints what has changed, and nothing else, within its border."""

from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from rollouthub_tui.widgets.line_panel import LinePanel
from tests.tui.led import led, lines


class _Framed(LinePanel):
    DEFAULT_CSS = "_Framed { width: 20; height: 4; border: round white; padding: 0 1; }"

    drawn = 0

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        return super().render_line(y)


class _Panels(Screen[None]):
    def compose(self) -> ComposeResult:
        yield _Framed()
        yield LinePanel(id="bare")


async def test_only_a_line_that_has_changed_is_painted_and_the_border_stays(tmp_path: Path) -> None:
    screen = _Panels()
    async with led(screen) as (pilot, _):
        framed = screen.query_one(_Framed)
        framed.border_title = "Title"
        framed.replace(Text("one\ntwo"))
        await pilot.pause()
        before = ["╭─ Title ──────────╮", "│ one              │", "│ two              │", "╰──────────────────╯"]
        assert lines(pilot)[:4] == before
        framed.drawn, whole = 0, Region(0, 0, 20, 4)
        kept = list(framed.render_lines(whole))
        framed.replace(Text.assemble("one\n", ("three", "bold red")))
        await pilot.pause()
        assert lines(pilot)[:4] == [*before[:2], "│ three            │", before[3]]
        assert [one is other for one, other in zip(framed.render_lines(whole), kept, strict=True)] == [
            True, True, False, True,
        ]  # fmt: skip
        assert framed.drawn == 0, "Textual would draw every line of it"
        framed.border_title = "Other"
        await pilot.pause()
        assert lines(pilot)[0].startswith("╭─ Other ─")
        framed.styles.width = 16
        await pilot.pause()
        assert lines(pilot)[2] == "│ three        │"


async def test_a_panel_is_painted_in_the_colours_of_another_theme(tmp_path: Path) -> None:
    screen = _Panels()
    async with led(screen) as (pilot, _):
        bare = screen.query_one("#bare", LinePanel)
        bare.replace(Text("words"))
        await pilot.pause()
        dark = [segment.style and segment.style.bgcolor for segment in bare.render_lines(Region(0, 0, 80, 1))[0]]
        pilot.app.theme = "textual-light"
        await pilot.pause()
        light = [segment.style and segment.style.bgcolor for segment in bare.render_lines(Region(0, 0, 80, 1))[0]]
        assert dark != light and bare.render_lines(Region(0, 0, 80, 1))[0].text.startswith("words")
