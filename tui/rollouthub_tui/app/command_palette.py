"""The command palette: the current screen's actions, runs to open, themes."""

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
from rollouthub_tui.screens.help import keys_of, shown_key
from rollouthub_tui.screens.steering_screen import SteeringScreen

_MOST_RUNS = 200
_DISCOVERED_RUNS = 5
_MOVES = ("cursor_", "scroll_", "page", "move", "first", "last", "to_edge", "token(", "app.command_palette")
"""Actions of keys that make no sense in the palette, such as moving the cursor."""


class Palette(CommandPalette):
    """Textual's palette, without its crash when a page key is pressed while its list has no height."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(OptionList).scrollable_content_region:
            super()._action_command_list(action)


class ScreenCommands(Provider):
    """The actions of the current screen's keys."""

    async def discover(self) -> Hits:
        """List the actions of the screen's keys; unavailable ones are left out or marked."""
        for words, said, call in self._commands():
            yield DiscoveryHit(Content(words), call, text=words, help=said)

    async def search(self, query: str) -> Hits:
        """The commands that match some letters, each with its score."""
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
    """Commands that open a run of this machine."""

    async def startup(self) -> None:
        """Find the runs."""
        to = navigator(self.screen)
        feed = RunsFeed(to.roots, to.environ)
        await feed.refresh()
        self._runs = feed.runs[:_MOST_RUNS]

    async def discover(self) -> Hits:
        """Commands for the latest few runs."""
        for run in self._runs[:_DISCOVERED_RUNS]:
            words = f"Open run {plain_name(run.name)}"
            yield DiscoveryHit(Content(words), self._open(run), text=words, help=_facts(run))

    async def search(self, query: str) -> Hits:
        """Commands for runs whose names match some letters."""
        matcher = self.matcher(query)
        for run in self._runs:
            words = f"Open run {plain_name(run.name)}"
            if (score := matcher.match(words)) > 0:
                yield Hit(score, _lit(matcher, words), self._open(run), text=words, help=_facts(run))

    def _open(self, run: SeenRun) -> Callable[[], None]:
        return partial(navigator(self.screen).open_run, run.directory)


class ThemeCommands(Provider):
    """Commands that choose a theme."""

    async def search(self, query: str) -> Hits:
        """Commands for themes whose names match some letters."""
        matcher = self.matcher(query)
        for name in self.app.available_themes:
            words = f"Theme {name}"
            if (score := matcher.match(words)) > 0:
                yield Hit(score, _lit(matcher, words), partial(setattr, self.app, "theme", name), text=words)


def _facts(run: SeenRun) -> str:
    """A description of a run in one line of plain text, without markup."""
    if not isinstance(run.info, RunInfo):
        return "cannot be read"
    return f"{'live' if run.is_live else run.info.status}, {moment(run.info.created_at)}"


def _lit(matcher: Matcher, words: str) -> Content:
    """The text with the matching letters highlighted; Textual's own function would interpret markup in it."""
    _, offsets = matcher.fuzzy_search.match(matcher.query, words)
    content = Content(words)
    for offset in offsets:
        content = content.stylize("underline", offset, offset + 1)
    return content
