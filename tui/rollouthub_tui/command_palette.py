"""The command palette: what the current screen can do, runs to open, themes."""

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher
from textual.markup import escape
from textual.widgets import OptionList

from rollouthub.live.follow import RunsFeed, SeenRun
from rollouthub.statistics.amounts import moment
from rollouthub.store import RunInfo
from rollouthub.text import plain_name
from rollouthub_tui.navigation import navigator
from rollouthub_tui.run_actions import SteeringScreen
from rollouthub_tui.screens.help import keys_of, shown_key

_MOST_RUNS = 200
_DISCOVERED_RUNS = 5
_MOVES = ("cursor_", "scroll_", "page_", "app.command_palette")
"""What makes sense as a key only."""


class Palette(CommandPalette):
    """Textual's, which breaks at a key that goes a page on where its list has no room to be shown in."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(OptionList).scrollable_content_region:
            super()._action_command_list(action)


class ScreenCommands(Provider):
    """Everything a key of the current screen does."""

    async def discover(self) -> Hits:
        """All of it."""
        for words, said, call in self._commands():
            yield DiscoveryHit(Content(words), call, text=words, help=said)

    async def search(self, query: str) -> Hits:
        """What is like a few letters."""
        matcher = self.matcher(query)
        for words, said, call in self._commands():
            if (score := matcher.match(words)) > 0:
                yield Hit(score, _lit(matcher, words), call, text=words, help=said)

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        seen: set[str] = set()
        shown = {key.does for keys in keys_of(self.screen).values() for key in keys}
        for key, active in self.screen.active_bindings.items():
            binding = active.binding
            words = binding.description or binding.tooltip
            if words not in shown or words in seen or binding.action.startswith(_MOVES):
                continue
            seen.add(words)
            if active.enabled:
                call = partial(self.app.run_action, binding.action, active.node)
                yield words, escape(f"key {shown_key(key)}"), call
            elif isinstance(self.screen, SteeringScreen):
                yield f"{words} (not now)", "choose it to see why", partial(self.screen.explain, binding)


class RunCommands(Provider):
    """Every run of this machine, to be opened."""

    async def startup(self) -> None:
        """Look which there are."""
        to = navigator(self.screen)
        feed = RunsFeed(to.roots, to.environ)
        await feed.refresh()
        self._runs = feed.runs[:_MOST_RUNS]

    async def discover(self) -> Hits:
        """The latest few."""
        for run in self._runs[:_DISCOVERED_RUNS]:
            words = f"Open run {plain_name(run.name)}"
            yield DiscoveryHit(Content(words), self._open(run), text=words, help=_facts(run))

    async def search(self, query: str) -> Hits:
        """Those whose names are like a few letters."""
        matcher = self.matcher(query)
        for run in self._runs:
            words = f"Open run {plain_name(run.name)}"
            if (score := matcher.match(words)) > 0:
                yield Hit(score, _lit(matcher, words), self._open(run), text=words, help=_facts(run))

    def _open(self, run: SeenRun) -> Callable[[], None]:
        return partial(navigator(self.screen).open_run, run.directory)


class ThemeCommands(Provider):
    """Every theme."""

    async def search(self, query: str) -> Hits:
        """Those whose names are like a few letters."""
        matcher = self.matcher(query)
        for name in self.app.available_themes:
            words = f"Theme {name}"
            if (score := matcher.match(words)) > 0:
                yield Hit(score, _lit(matcher, words), partial(setattr, self.app, "theme", name), text=words)


def _facts(run: SeenRun) -> str:
    """A line on a run; help is plain text, and no markup."""
    if not isinstance(run.info, RunInfo):
        return "cannot be read"
    return f"{'live' if run.is_live else run.info.status}, {moment(run.info.created_at)}"


def _lit(matcher: Matcher, words: str) -> Content:
    """The words with the letters that were found; Textual's own way of it takes them for markup."""
    _, offsets = matcher.fuzzy_search.match(matcher.query, words)
    content = Content(words)
    for offset in offsets:
        content = content.stylize("underline", offset, offset + 1)
    return content
