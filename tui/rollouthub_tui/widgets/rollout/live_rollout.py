"""Follows a rollout in flight by asking its hub at intervals: its growing conversation, and its end."""

from collections.abc import Callable

from rollouthub.errors import HubError, UnknownNameError
from rollouthub.live.control.live_views import RolloutDetails
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import count
from rollouthub.text import plain_name
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.live_transcript import LiveTranscript


class Tail:
    """Follows one attempt until its record exists."""

    def __init__(self, run: WatchedRun, rollout_id: str, attempt: int) -> None:
        self.shown: RolloutDetails | None = None
        """The hub's latest report; None before the first."""
        self.trouble: str | None = None
        """Why the hub's latest answer is missing; None if it is not."""
        self._run, self._rollout_id, self._attempt = run, rollout_id, attempt
        self._transcript = LiveTranscript()
        self._unseen = 0

    async def ask(self, view: DocumentView, is_wanted: Callable[[], bool]) -> None:
        """Ask the hub once, and show what is new if `is_wanted` still holds then."""
        run, rollout_id = self._run, self._rollout_id
        try:
            if not run.is_steered:
                await run.look_in()
            shown = await run.ask(lambda client: client.show(rollout_id, content=True))
        except UnknownNameError:
            self.trouble = "it is not in flight any more; its record is waited for"
        except HubError as error:
            self.trouble = plain_name(str(error))
        else:
            if not is_wanted():
                return
            if shown.attempt != self._attempt:
                self.trouble = f"attempt {shown.attempt} at it is in flight"
                return
            self.trouble = None
            self._show(shown, view)

    def _show(self, shown: RolloutDetails, view: DocumentView) -> None:
        before, self.shown = self.shown, shown
        if before is not None and (before.turns, before.turns_left_out) == (shown.turns, shown.turns_left_out):
            return
        follows = before is None or view.is_at_end
        view.show(self._transcript.sections(shown))
        if follows:
            view.action_move_to(-1)
        elif before is not None:
            self._unseen += max(0, shown.turn - before.turn)

    def words(self, view: DocumentView) -> list[str]:
        """The state of the attempt in words."""
        if view.is_at_end:
            self._unseen = 0
        told = [f"↓ {count(self._unseen, 'new turn')} (G)"] if self._unseen else []
        if self.trouble is not None:
            told += [*(["this is what was seen last"] if self.shown is not None else []), self.trouble]
        return told
