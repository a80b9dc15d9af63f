"""Performs actions from a screen: asks for confirmation, sends the request, and shows the reply or refusal."""

from collections.abc import Awaitable, Callable, Sequence

from textual.screen import Screen

from rollouthub.errors import HubError, said
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action, next_concurrency
from rollouthub.live.steering.bulk_requests import BULK_ACTIONS, BulkRequests
from rollouthub.live.steering.control_requests import LONGEST_ANSWER, HubRequests, no_concurrency, rollout_words
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain, plain_name
from rollouthub_tui.actions.file_viewer import open_files
from rollouthub_tui.actions.shell import open_shell
from rollouthub_tui.dialogs.questions import AskScreen, TextScreen
from rollouthub_tui.dialogs.rescoring import RescoreScreen
from rollouthub_tui.navigation import app_of


class ScreenActions:
    """Performs a person's actions on one screen, for the rollout that was selected when the action was requested."""

    retry_word = "r"
    """The key for playing a sample again, in words."""

    def __init__(
        self, screen: Screen[None], run: WatchedRun, target: Target | None, marked: Sequence[Target] = ()
    ) -> None:
        """With `marked` rollouts, what can be done for many is done for them."""
        self._screen, self._run, self._target = screen, run, target
        self._hub = HubRequests(self, run, target)
        self._marked = BulkRequests(self, run, marked, is_web=app_of(screen).is_web) if marked else None

    async def give(self, action: Action) -> None:
        """Perform an action to its end."""
        try:
            if self._marked is not None and action in BULK_ACTIONS:
                await self._marked.give(action)
            else:
                await self._orders[action]()
        except (HubError, OSError, ValueError) as error:
            self.hear(said(error), is_error=True)

    @property
    def _orders(self) -> dict[Action, Callable[[], Awaitable[None]]]:
        hub, view = self._hub, self._run.view
        return {
            "cancel": hub.cancel,
            "interrupt": hub.interrupt,
            "message": self._message,
            "retry": hub.retry,
            "pause": hub.pause,
            "more": lambda: hub.resize(next_concurrency(view, more=True)),
            "fewer": lambda: hub.resize(next_concurrency(view, more=False)),
            "concurrency": self._ask_concurrency,
            "rescore": self._rescore,
            "artifacts": lambda: open_files(self._screen, self._run, self._target),
            "shell": lambda: open_shell(self._screen, self._run, hub.rollout_id),
        }

    async def agrees(self, question: str, said: str, *, yes: str) -> bool:
        """Ask for confirmation in a dialog."""
        return await app_of(self._screen).push_screen_wait(AskScreen(question, said, yes=yes))

    def hear(self, words: str, *, is_error: bool = False) -> None:
        """Show a message as a notification."""
        severity = "error" if is_error else "information"
        self._screen.notify(plain(words, LONGEST_ANSWER), severity=severity, markup=False)

    async def _message(self) -> None:
        asked = TextScreen(
            f"Tell the agent of {rollout_words(self._run.feed, self._hub.rollout_id)}",
            "It reads this as its user's words, goes on, and its record says that it was told.",
        )
        text = await app_of(self._screen).push_screen_wait(asked)
        if text is not None:
            await self._hub.message(text)

    async def _ask_concurrency(self) -> None:
        view = self._run.view
        now = "" if view is None or view.concurrency is None else str(view.concurrency)
        text = await app_of(self._screen).push_screen_wait(
            TextScreen("How many episodes at a time?", f"Now {now}.", value=now, wrong=no_concurrency, longest=6)
        )
        if text is not None:
            await self._hub.resize(int(text))

    async def _rescore(self) -> None:
        said = "Its verifiers score every rollout anew, into a new run beside it; this one stays as it is."
        if await self.agrees(f"Score {plain_name(self._run.directory.name)} anew?", said, yes="Score it"):
            await app_of(self._screen).push_screen_wait(RescoreScreen(self._run.directory))
