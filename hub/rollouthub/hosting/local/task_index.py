"""Finds a task by its id in a split that is read lazily, without holding all tasks in memory."""

from collections.abc import Callable, Iterator

from rollouthub.errors import UnknownNameError
from rollouthub.messages import media_of
from rollouthub.task import BadRow, Public, Secret, Task

CAPACITY = 20_000
"""Most tasks held; others are found by reading the split again."""

MEDIA_BYTES = 128 * 2**20
"""Most bytes of media in the held tasks."""

AnyTask = Task[Public, Secret]


class SplitTasks:
    """The tasks of one split, read as far as needed."""

    def __init__(self, split: str, read: Callable[[], Iterator[AnyTask | BadRow]], capacity: int = CAPACITY) -> None:
        self._split, self._read, self._capacity = split, read, capacity
        self._kept: dict[str, AnyTask] = {}
        self._reading: Iterator[AnyTask | BadRow] | None = None
        self._has_dropped = False
        self._bytes = 0
        """Bytes of media in the held tasks."""

    def find(self, task_id: str) -> AnyTask:
        """The task of this id. Asking for tasks in the split's order reads the split only once.

        Raises:
            UnknownNameError: there is no such task.
        """
        task = self._kept.get(task_id)
        if task is not None:
            return task
        found = self._read_on(task_id)
        if found is None and self._has_dropped:
            self._kept.clear()
            self._bytes = 0
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
            self._bytes += _held_bytes(task)
            while self._kept and (len(self._kept) >= self._capacity or self._bytes > MEDIA_BYTES):
                # The oldest first: a run asks for tasks in their order.
                self._bytes -= _held_bytes(self._kept.pop(next(iter(self._kept))))
                self._has_dropped = True
            self._kept[task.id] = task
            if task.id == task_id:
                return task
        return None


def _held_bytes(task: AnyTask) -> int:
    prompt = task.public.prompt
    return 0 if isinstance(prompt, str) else sum(part.held_bytes for part in media_of(prompt))
