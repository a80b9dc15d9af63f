"""Finding a task by its id among tasks that come one by one, without keeping them all."""

from collections.abc import Callable, Iterator

from rollouthub.errors import UnknownNameError
from rollouthub.task import BadRow, Public, Secret, Task

CAPACITY = 20_000
"""Tasks kept; more are found by reading the split again."""

AnyTask = Task[Public, Secret]


class TaskShelf:
    """The tasks of one split, read as far as was asked for."""

    def __init__(self, split: str, read: Callable[[], Iterator[AnyTask | BadRow]], capacity: int = CAPACITY) -> None:
        self._split, self._read, self._capacity = split, read, capacity
        self._kept: dict[str, AnyTask] = {}
        self._reading: Iterator[AnyTask | BadRow] | None = None
        self._has_dropped = False

    def find(self, task_id: str) -> AnyTask:
        """The task of this id. Whoever asks in the order of the split reads it once.

        Raises:
            UnknownNameError: there is none.
        """
        task = self._kept.get(task_id)
        if task is not None:
            return task
        found = self._read_on(task_id)
        if found is None and self._has_dropped:
            self._kept.clear()
            self._reading, self._has_dropped = None, False
            found = self._read_on(task_id)
        if found is None:
            raise UnknownNameError(f"task of split {self._split!r}", task_id, list(self._kept)[:1000])
        return found

    def _read_on(self, task_id: str) -> AnyTask | None:
        if self._reading is None:
            self._reading = self._read()
        for task in self._reading:
            if isinstance(task, BadRow):
                continue
            if len(self._kept) >= self._capacity:
                # The oldest first: a run asks for tasks in their order.
                del self._kept[next(iter(self._kept))]
                self._has_dropped = True
            self._kept[task.id] = task
            if task.id == task_id:
                return task
        return None
