"""Progress messages of a running command."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from rollouthub_registry.client.source import Progress


@contextmanager
def _no_bar(label: str) -> Generator[Progress | None]:
    yield None


def _nothing(line: str) -> None:
    pass


@dataclass(frozen=True)
class ProgressReport:
    """Callbacks for the progress of an installation."""

    note: Callable[[str], None] = _nothing
    """Called with a line on the current step."""
    warn: Callable[[str], None] = _nothing
    """Called with a warning."""
    bar: Callable[[str], AbstractContextManager[Progress | None]] = _no_bar
    """Shows the progress of a download."""
