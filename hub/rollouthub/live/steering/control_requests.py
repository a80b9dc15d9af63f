"""Sends control requests to the hub that plays a run: asks for confirmation first, then reports the reply.

Both the screens and the text mode use it.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from rollouthub.errors import LiveControlError, UnknownNameError
from rollouthub.live.control.live_client import LiveClient
from rollouthub.live.control.live_protocol import MOST_CONCURRENT, Done
from rollouthub.live.follow.run_feed import RunFeed
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import number
from rollouthub.text import plain, plain_name

LONGEST_ANSWER = 600


class Person(Protocol):
    """Asks the person who gave an order to confirm it, and shows the reply to that person."""

    retry_word: str
    """How the person has a sample played again: a key or a command."""

    async def agrees(self, question: str, said: str, *, yes: str) -> bool:
        """Ask the person to confirm; `said` explains the effect, and `yes` is the label for agreeing."""
        ...

    def hear(self, words: str, *, is_error: bool = False) -> None:
        """Show a message."""
        ...


class HubRequests:
    """Requests to a running hub that concern a run and one of its rollouts.

    Every request raises `LiveControlError` if the hub does not answer or refuses, and `UsageError` if it does not know
    the rollout.
    """

    def __init__(self, person: Person, run: WatchedRun, target: Target | None) -> None:
        self._person, self._run, self._target = person, run, target

    @property
    def rollout_id(self) -> str:
        """Id of the selected rollout."""
        assert self._target is not None, "an action of a rollout is not possible without one"
        return self._target.rollout_id

    async def cancel(self) -> None:
        """End the rollout unscored, after confirmation."""
        again = self._person.retry_word
        said = f"What it did stays in its record; {again}, or `hub run --resume`, has it played again."
        question = f"End {rollout_words(self._run.feed, self.rollout_id)} now, unscored?"
        if await self._person.agrees(question, said, yes="Cancel it"):
            await self._tell(lambda hub: hub.cancel(self.rollout_id))

    async def interrupt(self) -> None:
        """End the rollout and score what the agent did so far, after confirmation."""
        question = f"End the time of {rollout_words(self._run.feed, self.rollout_id)}?"
        if await self._person.agrees(question, "What it did so far is verified and scored.", yes="Score it now"):
            await self._tell(lambda hub: hub.interrupt(self.rollout_id))

    async def message(self, text: str) -> None:
        """Send the agent a message."""
        await self._tell(lambda hub: hub.tell(self.rollout_id, text))

    async def retry(self) -> None:
        """Ask the hub to play the sample again."""
        await self._tell(lambda hub: hub.retry(self.rollout_id))

    async def pause(self) -> None:
        """Pause the run, so that it starts no more episodes; or resume it, if it is paused."""
        view = self._run.view
        is_paused = view is not None and view.status == "paused"
        await self._tell(lambda hub: hub.resume() if is_paused else hub.pause())

    async def resize(self, concurrency: int) -> None:
        """Set how many episodes are played at a time."""
        await self._tell(lambda hub: hub.resize(concurrency))

    async def _tell(self, order: Callable[[LiveClient], Awaitable[Done]]) -> None:
        try:
            answer = (await self._run.ask(order)).message
        except UnknownNameError as error:
            self._run.refresh()
            if (ended := ended_words(self._run.feed, self._target)) is None:
                raise
            raise LiveControlError(ended) from error
        self._person.hear(plain(answer, LONGEST_ANSWER))
        await self._run.look_in()


def rollout_words(feed: RunFeed, rollout_id: str) -> str:
    """A rollout by its task and sample, as a person knows it, and its id."""
    state = next((state for state in feed.live if state.rollout_id == rollout_id), None)
    if state is not None:
        task, sample = state.task_id, state.sample
    elif rollout_id in (ids := feed.columns.texts["rollout_id"]):
        place = ids.index(rollout_id)
        task, sample = feed.columns.words["task_id"][place] or "", feed.columns.wholes["sample"][place]
    else:
        return plain_name(rollout_id)
    return f"{plain_name(task)}, sample {sample} ({plain_name(rollout_id)})"


def ended_words(feed: RunFeed, target: Target | None) -> str | None:
    """How an attempt that was in flight has ended meanwhile; None if it has no record yet."""
    if target is None:
        return None
    columns = feed.columns
    ids, attempts = columns.texts["rollout_id"], columns.wholes["attempt"]
    place = next(
        (
            place
            for place in reversed(range(len(columns)))
            if ids[place] == target.rollout_id and attempts[place] == target.attempt
        ),
        None,
    )
    if place is None:
        return None
    reward, outcome = columns.value("reward", place), str(columns.value("outcome", place)).replace("_", " ")
    came_to = f"reward {number(reward)}" if isinstance(reward, float) else f"{outcome}, unscored"
    return f"{plain_name(target.rollout_id)} has ended meanwhile: {came_to}"


def no_concurrency(text: str) -> str | None:
    """What is wrong with a text as a number of episodes; None if nothing is."""
    if text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST_CONCURRENT:
        return None
    return f"a number from 1 to {MOST_CONCURRENT:,}, please"
