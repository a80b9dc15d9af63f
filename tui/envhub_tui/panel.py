"""What every part of a run's screens can do: show how the run is now."""

from textual.widgets import Static

from envhub_tui.watched import WatchedRun


class Panel(Static):
    """Shows something of a run. Asked again at each tick while it can be seen, so it must cost little."""

    can_focus = False

    def show(self, run: WatchedRun) -> None:
        """Show how the run is now."""
        raise NotImplementedError
