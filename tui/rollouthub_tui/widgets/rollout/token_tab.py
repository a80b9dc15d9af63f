"""The tab with a rollout's tokens: what training gets of it, the tokens, and the one at the cursor in words."""

from functools import partial
from pathlib import Path

import anyio.to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from rollouthub.errors import HubError, said
from rollouthub.text import plain_name
from rollouthub_tui.navigation import app_of
from rollouthub_tui.widgets.rollout.record_reader import ReadRecord, training_rows
from rollouthub_tui.widgets.rollout.token_heatmap import HeatView, legend


class TokenTab(Vertical):
    """Shows the tokens of one record at a time."""

    DEFAULT_CSS = """
    TokenTab Static { height: auto; padding: 0 1; }
    TokenTab #rows { height: 1; }
    TokenTab #token { min-height: 2; max-height: 3; }
    """
    _record: ReadRecord | None = None

    def compose(self) -> ComposeResult:
        """Training rows, tokens, the token at the cursor, and what the colours mean."""
        yield Static(id="rows")
        yield HeatView(id="heat")
        yield Static(id="token")
        yield Static(legend(not app_of(self).no_color), id="legend")

    def show(self, directory: Path, record: ReadRecord) -> None:
        """Show a record of the run in a directory, and count its training rows in a thread."""
        self._record = record
        self.query_one(HeatView).show(record.rollout, record.prompt_lengths)
        self._tell_token()
        self.run_worker(partial(self._count_rows, directory, record), exclusive=True, group="rows")

    async def _count_rows(self, directory: Path, record: ReadRecord) -> None:
        rows = self.query_one("#rows", Static)
        rows.update(Text("counting training rows …", style="dim"))
        try:
            told = await anyio.to_thread.run_sync(training_rows, directory, record)
        except (HubError, OSError, ValueError) as error:
            told = plain_name(said(error))
        if record is self._record:
            rows.update(Text(told))

    def on_heat_view_moved(self, event: HeatView.Moved) -> None:
        """Show the token at the cursor in words."""
        event.stop()
        self._tell_token()

    def _tell_token(self) -> None:
        self.query_one("#token", Static).update(self.query_one(HeatView).words())
