"""`Probe`: something that is tried on every task."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rollouthub_registry.check.defect_class import DefectClass

if TYPE_CHECKING:
    from rollouthub_registry.audit.task_under_audit import TaskUnderAudit


@dataclass(frozen=True)
class Probe:
    """A way to see whether a task's score can be trusted."""

    name: str
    defect: DefectClass
    """The class of what it looks for."""
    title: str
    """The property that it looks at, in one sentence."""
    run: "Callable[[TaskUnderAudit], Awaitable[str]]"
    """Tries it, notes what is wrong in the task, and returns what was tried in a few words.

        Raises:
            ProbeSkipped: it does not apply to this task.
    """
    source: str | None = None
    """The paper or issue that describes what it looks for."""
    seconds: float = 600.0
    """Most seconds that it may take."""
