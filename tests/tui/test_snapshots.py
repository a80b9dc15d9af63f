"""The pictures themselves: the same for the same screen, and a difference can be read."""

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Footer, Static

from tests.tui import snapshots
from tests.tui.snapshots import Album, compact, difference, lines_of


class Small(App[None]):
    """A few words."""

    BINDINGS = [("q", "quit", "Quit")]
    words = "100 % <b> 注文 ✗ & more"

    def compose(self) -> ComposeResult:
        """A line and the keys."""
        yield Static(self.words, markup=False)
        yield Footer()


async def test_a_screen_is_drawn_the_same_each_time_and_a_change_is_told_in_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "KEPT", tmp_path)
    monkeypatch.delenv(snapshots.UPDATE, raising=False)
    drawn: list[str] = []
    app = Small()
    async with app.run_test(size=(40, 4)) as pilot:
        for theme in ("textual-dark", "textual-light", "textual-dark"):
            app.theme = theme
            await pilot.pause()
            drawn.append(compact(app.export_screenshot()))
        assert drawn[0] == drawn[2] != drawn[1]
        assert lines_of(drawn[0])[0] == "100 % <b> 注文 ✗ & more"
        assert "the words are the same" in difference(drawn[0], drawn[1])
        (tmp_path / "small.svg").write_text(drawn[0])
        with Album() as album:
            album.look(app, "small")
        app.query_one(Static).update("less")
        await pilot.pause()
        with pytest.raises(AssertionError, match=r"-100 % <b> 注文 ✗ & more\n\+less"), Album() as album:
            album.look(app, "small")
        assert lines_of((tmp_path / "small.new.svg").read_text())[0] == "less"
