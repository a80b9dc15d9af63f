"""The same request for many rollouts of a run, asked about once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rollouthub.errors import LiveControlError, UsageError, said
from rollouthub.live.control.live_client import LiveClient
from rollouthub.live.control.live_protocol import Done
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import situation, why_not
from rollouthub.live.steering.control_requests import LONGEST_ANSWER, Person
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import count
from rollouthub.text import plain

BulkAction = Literal["cancel", "interrupt", "retry"]
BULK_ACTIONS: tuple[BulkAction, ...] = ("cancel", "interrupt", "retry")


@dataclass(frozen=True, slots=True)
class _BulkWords:
    """What a person is asked, and told afterwards; `{}` stands for a number of rollouts."""

    question: str
    said: str
    yes: str
    done: str
    possible: str
    """What a rollout must be for this."""


_WORDS: Mapping[BulkAction, _BulkWords] = {
    "cancel": _BulkWords(
        "End {} now, unscored?",
        "What they did stays in their records; retry, or `hub run --resume`, has them played again.",
        "Cancel them",
        "cancelled {}",
        "in flight",
    ),
    "interrupt": _BulkWords(
        "End the time of {}?", "What they did so far is verified and scored.", "Score them now", "ended {}", "in flight"
    ),
    "retry": _BulkWords(
        "Play {} again?",
        "The earlier attempts are kept; what has a result is not played again.",
        "Play them",
        "{} will be played again",
        "broken or cancelled",
    ),
}


def possible_targets(run: WatchedRun, action: BulkAction, targets: Sequence[Target], *, is_web: bool) -> list[Target]:
    """The rollouts for which an action may be possible now, each once."""
    wanted = {
        target.rollout_id: target
        for target in targets
        if why_not(action, situation(run, target, is_web=is_web)) is None
    }
    return list(wanted.values())


class BulkRequests:
    """Requests to the hub that plays a run, for several of its rollouts."""

    def __init__(self, person: Person, run: WatchedRun, targets: Sequence[Target], *, is_web: bool) -> None:
        self._person, self._run, self._targets, self._is_web = person, run, targets, is_web

    async def give(self, action: BulkAction) -> None:
        """Ask once for all, do it for each, and say for how many it was done, and why not for the others.

        Raises:
            LiveControlError: the hub does not answer.
        """
        words, marked = _WORDS[action], len(self._targets)
        wanted = possible_targets(self._run, action, self._targets, is_web=self._is_web)
        if not wanted:
            self._person.hear(f"none of the {marked:,} marked is {words.possible}", is_error=True)
            return
        some = count(len(wanted), "rollout")
        left_out = f" {marked - len(wanted):,} of the {marked:,} marked are not {words.possible}."
        told = words.said + (left_out if len(wanted) < marked else "")
        if await self._person.agrees(words.question.format(some), told, yes=words.yes):
            await self._do(action, [target.rollout_id for target in wanted])

    async def _do(self, action: BulkAction, rollout_ids: Sequence[str]) -> None:
        refusals: list[str] = []

        async def request_each(client: LiveClient) -> None:
            requests: Mapping[BulkAction, Callable[[str], Awaitable[Done]]] = {
                "cancel": client.cancel,
                "interrupt": client.interrupt,
                "retry": client.retry,
            }
            for rollout_id in rollout_ids:
                try:
                    await requests[action](rollout_id)
                except (LiveControlError, UsageError) as error:
                    refusals.append(said(error))

        await self._run.ask(request_each)
        done = len(rollout_ids) - len(refusals)
        words = _WORDS[action].done.format(count(done, "rollout"))
        if refusals:
            words += f"; {len(refusals):,} had ended meanwhile, or were refused: {refusals[0]}"
        self._person.hear(plain(words, LONGEST_ANSWER), is_error=not done)
        await self._run.look_in()
