"""Sends control requests to the hub that plays a run: asks for confirmation first, then reports the reply.

However a person is asked: screens and lines both give their orders here.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from rollouthub.live.control.live_client import LiveClient
from rollouthub.live.control.live_protocol import MOST_CONCURRENT, Done
from rollouthub.text import plain, plain_name
from rollouthub_tui.action_target import Target
from rollouthub_tui.watched_run import WatchedRun

LONGEST_ANSWER = 600


class Person(Protocol):
    """Who gives orders."""

    retry_word: str
    """What the person does to have something played again."""

    async def agrees(self, question: str, said: str, *, yes: str) -> bool:
        """Whether it really shall be done; `said` is what follows from it, `yes` what to agree to is called."""
        ...

    def hear(self, words: str, *, is_error: bool = False) -> None:
        """Be told something."""
        ...


class HubOrders:
    """What a person orders for a run, and for the one rollout of it that is meant.

    Every order raises a `DoorError` where the hub does not answer or refuses, and a `UsageError` where it knows no such
    rollout.
    """

    def __init__(self, person: Person, run: WatchedRun, target: Target | None) -> None:
        self._person, self._run, self._target = person, run, target

    @property
    def rollout_id(self) -> str:
        """The rollout that is meant."""
        assert self._target is not None, "an action of a rollout is not possible without one"
        return self._target.rollout_id

    async def cancel(self) -> None:
        """End the rollout unscored, if that is really meant."""
        again = self._person.retry_word
        said = f"What it did stays in its record; {again}, or `hub run --resume`, has it played again."
        question = f"End {plain_name(self.rollout_id)} now, unscored?"
        if await self._person.agrees(question, said, yes="Cancel it"):
            await self._tell(lambda hub: hub.cancel(self.rollout_id))

    async def interrupt(self) -> None:
        """End the agent's time, if that is really meant."""
        question = f"End the time of {plain_name(self.rollout_id)}?"
        if await self._person.agrees(question, "What it did so far is verified and scored.", yes="Score it now"):
            await self._tell(lambda hub: hub.interrupt(self.rollout_id))

    async def message(self, text: str) -> None:
        """Say something to the agent."""
        await self._tell(lambda hub: hub.tell(self.rollout_id, text))

    async def retry(self) -> None:
        """Have it played again."""
        await self._tell(lambda hub: hub.retry(self.rollout_id))

    async def pause(self) -> None:
        """Let the run start nothing new; or, where it is paused, let it go on."""
        view = self._run.view
        is_paused = view is not None and view.status == "paused"
        await self._tell(lambda hub: hub.resume() if is_paused else hub.pause())

    async def resize(self, concurrency: int) -> None:
        """Play so many at a time."""
        await self._tell(lambda hub: hub.resize(concurrency))

    async def _tell(self, order: Callable[[LiveClient], Awaitable[Done]]) -> None:
        self._person.hear(plain((await self._run.ask(order)).message, LONGEST_ANSWER))
        await self._run.look_in()


def no_concurrency(text: str) -> str | None:
    """What is wrong with a number of episodes; None where nothing is."""
    if text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST_CONCURRENT:
        return None
    return f"a number from 1 to {MOST_CONCURRENT:,}, please"
