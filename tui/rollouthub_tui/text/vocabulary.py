"""The command words of the text mode, with their functions."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from rollouthub.errors import UnknownNameError, UsageError
from rollouthub_tui.settings import load_settings, save_settings
from rollouthub_tui.text import control_commands, view_commands
from rollouthub_tui.text.live_events import follow
from rollouthub_tui.text.opened_rollout import find_within, show
from rollouthub_tui.text.pages import in_pages
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.run_comparison import compare

Act = Callable[[Position, str], Awaitable[None]]
_FILTER = 'such as reward < 0.5 and turns > 3, outcome == "scored" and not passed, task ~ "algebra", reward == null'


@dataclass(frozen=True, slots=True)
class CommandWord:
    """One command of the text mode."""

    usage: str
    """The command word, and the arguments that may follow it."""
    meaning: str
    act: Act | None
    """The function of the command; None for the command that quits."""
    more: str = ""
    """Further help, shown when help is asked about this command."""

    @property
    def name(self) -> str:
        """The command word without its arguments."""
        return self.usage.partition(" ")[0]


async def _find(session: Position, rest: str) -> None:
    if not rest:
        raise UsageError("find what? Say a regular expression")
    if session.target is not None:
        await find_within(session, rest)
    else:
        await view_commands.search(session, rest)


async def more(session: Position, rest: str) -> None:
    """Show the next page."""
    if not session.pages.has_more:
        raise UsageError("there is no more of it")
    session.turn_page()


async def _always(session: Position, rest: str) -> None:
    wanted = {"": True, "on": True, "off": False}.get(rest)
    if wanted is None:
        raise UsageError("always on, or always off?")
    settings = load_settings(session.environ)
    save_settings(settings.model_copy(update={"text": wanted}), session.environ, since=settings)
    if load_settings(session.environ).text != wanted:
        raise UsageError("that could not be written, and is not remembered")
    way = "line by line; hub watch --no-text shows screens" if wanted else "with screens"
    session.output.say(f"On a terminal, hub watch begins {way} from now on.")


async def _help(session: Position, rest: str) -> None:
    session.read(in_pages(_help_lines(rest)))


def _help_lines(rest: str) -> Iterator[str]:
    if rest:
        word = find_word(rest)
        yield f"{word.usage}: {word.meaning}"
        if word.more:
            yield word.more
        return
    yield from (f"{word.usage}: {word.meaning}" for word in WORDS)
    yield "The first letters of a word are enough; of several that begin so, the first in this list is meant."
    yield "N is a number of the list that was made last, ID a rollout's id or its beginning, or this for the open one."
    yield "An empty line reads on, where there is more. Ctrl-C and Ctrl-D leave."


WORDS = (
    CommandWord("runs", "the runs of this machine, those that play first", view_commands.runs),
    CommandWord("rollouts [FILTER]", "the rollouts of the run, those in flight first", view_commands.rollouts, _FILTER),
    CommandWord(
        "open N or NAME", "open a run, a task's rollouts or a rollout, by its number, name or id", view_commands.open_
    ),
    CommandWord("more", "read on", more),
    CommandWord("back", "from a rollout to its run, from a run to the runs", view_commands.back),
    CommandWord("errors [FILTER]", "the rollouts that did not end scored", view_commands.errors, _FILTER),
    CommandWord("next", "open the next of the list that did not end scored", view_commands.next_error),
    CommandWord("previous", "open the one before", view_commands.previous_error),
    CommandWord("best", "open the highest reward of the list", view_commands.best),
    CommandWord("worst", "open the lowest reward of the list", view_commands.worst),
    CommandWord("tasks", "what the samples of each task came to, the hardest first", view_commands.tasks),
    CommandWord(
        "show [N or ID] [conversation, score, timings or notes]",
        "read what a rollout said and did, turn by turn; how it was scored; what took how long; what people noted",
        show,
    ),
    CommandWord("find REGEX", "where a regular expression is in the open rollout, or which rollouts it is in", _find),
    CommandWord("follow", "tell what happens, until Enter", follow),
    CommandWord("summary", "what the run came to", view_commands.summary),
    CommandWord("machines", "model servers, workers and sandboxes that the run plays on", view_commands.machines),
    CommandWord("compare N N", "two runs, by their numbers or names: which is better, and on which tasks", compare),
    CommandWord("cancel [N or ID]", "end a rollout now, unscored", control_commands.cancel),
    CommandWord(
        "interrupt [N or ID]", "end the agent's time: what it did so far is scored", control_commands.interrupt
    ),
    CommandWord("say N TEXT", "say something to an agent, as its user; its record notes it", control_commands.say),
    CommandWord("retry [N or ID]", "play a sample again that broke or was cancelled", control_commands.retry),
    CommandWord("pause", "start nothing new in this run; again: go on", control_commands.pause),
    CommandWord("concurrency N", "play so many episodes at a time", control_commands.concurrency),
    CommandWord("always [on or off]", "have hub watch begin line by line, on a terminal, or no more", _always),
    CommandWord("help [WORD]", "these words, or more about one", _help),
    CommandWord("quit", "leave", None),
)
"""All commands, in the order in which abbreviations are resolved: those that only read come before those that change
a run.
"""


def find_word(typed: str) -> CommandWord:
    """The command with this name, or the first one that begins so.

    Raises:
        UnknownNameError: no command does.
    """
    name = typed.lower()
    for word in WORDS:
        if word.name == name:
            return word
    for word in WORDS:
        if word.name.startswith(name):
            return word
    raise UnknownNameError("word", typed, [word.name for word in WORDS], "help lists them.")
