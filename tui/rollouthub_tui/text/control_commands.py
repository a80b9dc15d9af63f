"""Text commands that control a live run through its hub, refused for the same reasons as on the screens."""

from collections.abc import Awaitable, Callable

from rollouthub.errors import UsageError
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action, situation, why_not
from rollouthub.live.steering.control_requests import HubRequests, no_concurrency
from rollouthub_tui.text.position import Position


class Speaker:
    """A person who is asked and answers in lines."""

    retry_word = "retry"

    def __init__(self, session: Position) -> None:
        self._session = session

    async def agrees(self, question: str, said: str, *, yes: str) -> bool:
        """Ask for confirmation; any answer but yes means no."""
        self._session.output.say(f"{question} {said}")
        answer = await self._session.lines.answer("Really? yes or no: ")
        is_meant = (answer or "").strip().lower() in ("y", "yes")
        if not is_meant:
            self._session.output.say("Nothing was done.")
        return is_meant

    def hear(self, words: str, *, is_error: bool = False) -> None:
        """Show a message."""
        if is_error:
            self._session.output.complain(words)
        else:
            self._session.output.say(words)


async def cancel(session: Position, rest: str) -> None:
    """End a rollout unscored."""
    await _order(session, "cancel", session.meant(rest), lambda orders: orders.cancel())


async def interrupt(session: Position, rest: str) -> None:
    """End a rollout and score what the agent did so far."""
    await _order(session, "interrupt", session.meant(rest), lambda orders: orders.interrupt())


async def say(session: Position, rest: str) -> None:
    """Send a message to an agent, in the role of its user."""
    word, _, text = rest.partition(" ")
    if not text.strip():
        raise UsageError("say what to whom? Say a number, an id or this, and then the words")
    await _order(session, "message", session.meant(word), lambda orders: orders.message(text.strip()))


async def retry(session: Position, rest: str) -> None:
    """Play a sample again that broke or was cancelled."""
    await _order(session, "retry", session.meant(rest), lambda orders: orders.retry())


async def pause(session: Position, rest: str) -> None:
    """Pause the run, so that it starts no more episodes; or resume it."""
    await _order(session, "pause", None, lambda orders: orders.pause())


async def concurrency(session: Position, rest: str) -> None:
    """Set how many episodes are played at a time."""
    view = session.here.view
    if not rest and view is not None and view.concurrency is not None:
        session.output.say(f"{view.concurrency:,} at a time")
        return
    if rest and (wrong := no_concurrency(rest)):
        raise UsageError(f"{rest!r} is no number of episodes: {wrong}")
    if not rest:
        raise UsageError("how many at a time? Say a number")
    await _order(session, "concurrency", None, lambda orders: orders.resize(int(rest)))


async def _order(
    session: Position, action: Action, target: Target | None, order: Callable[[HubRequests], Awaitable[None]]
) -> None:
    run = session.here
    reason = why_not(action, situation(run, target, is_web=False))
    if reason is not None:
        raise UsageError(reason)
    await order(HubRequests(Speaker(session), run, target))
