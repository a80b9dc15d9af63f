"""The forms of a report as plug-ins, found by name or by the ending of a file."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from rollouthub.plugins.entry_points import VIEWS, plugins
from rollouthub.plugins.lookup import find_plugin
from rollouthub.views.report.report_facts import Report


@runtime_checkable
class ReportView(Protocol):
    """Renders the facts and figures of runs as one text. What agents and tools said in them is hostile."""

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of the files that have this form, in lower case, such as `.html`."""
        ...

    def render(self, report: Report) -> str:
        """The whole report. The same report gives the same text, which needs nothing else to be read."""
        ...


def find_view(name: str) -> ReportView:
    """The view that is registered under a name.

    Raises:
        UnknownNameError: nothing is registered under the name.
        ConfigError: the plug-in cannot be loaded or made, or is no view.
    """
    return find_plugin(VIEWS, "report format", name, ReportView)


def view_of_ending(ending: str) -> str | None:
    """The name of the view that files with this ending have, the hub's own before others'; None if none has it."""
    return next((name for name in _own_first() if ending.lower() in find_view(name).endings), None)


def _own_first() -> Iterator[str]:
    yield from sorted(plugins(VIEWS), key=lambda name: "/" in name)
