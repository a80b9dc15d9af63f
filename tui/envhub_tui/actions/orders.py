"""Doing it: asking first, telling the hub, saying what it answered. Refusals are told, never a crash."""

from collections.abc import Awaitable, Callable

from textual.screen import Screen

from envhub.errors import HubError
from envhub.live.client import LiveClient
from envhub.live.plain import plain, plain_name
from envhub.live.protocol import MOST_CONCURRENT, Done
from envhub_tui.actions.opening import open_files
from envhub_tui.actions.shell import open_shell
from envhub_tui.actions.why import Action, next_concurrency
from envhub_tui.navigation import app_of
from envhub_tui.screens.asking import AskScreen, TextScreen
from envhub_tui.screens.rescoring import RescoreScreen
from envhub_tui.target import Target
from envhub_tui.watched import WatchedRun

_LONGEST_ANSWER = 600


class Orders:
    """What one person orders from one screen, for the rollout that was at the cursor then."""

    def __init__(self, screen: Screen[None], run: WatchedRun, target: Target | None) -> None:
        self._screen, self._run, self._target = screen, run, target

    async def give(self, action: Action) -> None:
        """See it through."""
        try:
            await self._orders[action]()
        except (HubError, OSError, ValueError) as error:
            self._say(str(error), is_error=True)

    @property
    def _orders(self) -> dict[Action, Callable[[], Awaitable[None]]]:
        return {
            "cancel": self._cancel,
            "interrupt": self._interrupt,
            "message": self._message,
            "retry": lambda: self._tell(lambda hub: hub.retry(self._id)),
            "pause": self._pause,
            "more": lambda: self._resize(next_concurrency(self._run.view, more=True)),
            "fewer": lambda: self._resize(next_concurrency(self._run.view, more=False)),
            "concurrency": self._ask_concurrency,
            "rescore": self._rescore,
            "artifacts": lambda: open_files(self._screen, self._run, self._target),
            "shell": lambda: open_shell(self._screen, self._run, self._id),
        }

    @property
    def _id(self) -> str:
        assert self._target is not None, "an action of a rollout is not possible without one"
        return self._target.rollout_id

    async def _cancel(self) -> None:
        name = plain_name(self._id)
        said = "What it did stays in its record; r, or `hub run --resume`, has it played again."
        if await app_of(self._screen).push_screen_wait(AskScreen(f"End {name} now, unscored?", said, yes="Cancel it")):
            await self._tell(lambda hub: hub.cancel(self._id))

    async def _interrupt(self) -> None:
        name = plain_name(self._id)
        said = "What it did so far is verified and scored."
        if await app_of(self._screen).push_screen_wait(AskScreen(f"End the time of {name}?", said, yes="Score it now")):
            await self._tell(lambda hub: hub.interrupt(self._id))

    async def _message(self) -> None:
        asked = TextScreen(
            f"Tell the agent of {plain_name(self._id)}",
            "It reads this as its user's words, goes on, and its record says that it was told.",
        )
        text = await app_of(self._screen).push_screen_wait(asked)
        if text is not None:
            await self._tell(lambda hub: hub.tell(self._id, text))

    async def _pause(self) -> None:
        view = self._run.view
        if view is not None and view.status == "paused":
            await self._tell(lambda hub: hub.resume())
        else:
            await self._tell(lambda hub: hub.pause())

    async def _ask_concurrency(self) -> None:
        view = self._run.view
        now = "" if view is None or view.concurrency is None else str(view.concurrency)
        text = await app_of(self._screen).push_screen_wait(
            TextScreen("How many episodes at a time?", f"Now {now}.", value=now, wrong=_no_concurrency, longest=6)
        )
        if text is not None:
            await self._resize(int(text))

    async def _resize(self, concurrency: int) -> None:
        await self._tell(lambda hub: hub.resize(concurrency))

    async def _rescore(self) -> None:
        said = "Its verifiers score every rollout anew, into a new run beside it; this one stays as it is."
        if not await app_of(self._screen).push_screen_wait(
            AskScreen(f"Score {plain_name(self._run.directory.name)} anew?", said, yes="Score it")
        ):
            return
        await app_of(self._screen).push_screen_wait(RescoreScreen(self._run.directory))

    async def _tell(self, order: Callable[[LiveClient], Awaitable[Done]]) -> None:
        self._say((await self._run.ask(order)).message)
        await self._run.look_in()

    def _say(self, words: str, *, is_error: bool = False) -> None:
        severity = "error" if is_error else "information"
        self._screen.notify(plain(words, _LONGEST_ANSWER), severity=severity, markup=False)


def _no_concurrency(text: str) -> str | None:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_CONCURRENT:
        return None
    return f"a number from 1 to {MOST_CONCURRENT:,}, please"
