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
    """Who is told."""

    note: Callable[[str], None] = _nothing
    """A line of what is being done."""
    warn: Callable[[str], None] = _nothing
    """A line of what the user should know."""
    bar: Callable[[str], AbstractContextManager[Progress | None]] = _no_bar
    """Shows how a download comes along."""
