"""Copies of a task in which one secret field is replaced by a canary."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any, cast

from rollouthub import Message, Public, Secret, Task
from rollouthub.messages import assistant

DIGITS = 15
"""Digits of a canary, enough that no other text has the same by chance."""


def new_canary(field: str) -> str:
    """A random canary that cannot be guessed."""
    return str(secrets.randbelow(9 * 10 ** (DIGITS - 1)) + 10 ** (DIGITS - 1))


def planted(
    task: Task[Public, Secret], canary_of: Callable[[str], str] = new_canary
) -> Iterator[tuple[str, str, Task[Public, Secret]]]:
    """Copies of a task, in each of which one field of the secret half is replaced by a canary of the same type.

    Yields the field's name, the canary and the task.
    """
    for field in type(task.secret).model_fields:
        if field in task.secret.of_seats:
            continue
        canary = canary_of(field)
        value = _plant(getattr(task.secret, field), canary)
        if value is not None:
            yield field, canary, Task(task.public, task.secret.model_copy(update={field: value}))


def _plant(value: Any, canary: str) -> Any:
    """The value with its words and numbers replaced by the canary; None if it has neither."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        # Digits where there were digits: whoever reads a number there still can.
        return canary if _is_number(value) else f"canary-{canary}"
    if isinstance(value, int | float):
        return type(value)(int(canary))
    if isinstance(value, dict):
        whole = cast(dict[str, Any], value)
        found = {key: planted for key, item in whole.items() if (planted := _plant(item, canary)) is not None}
        return {**whole, **found} if found else None
    if isinstance(value, list | tuple):
        items = cast("list[Any] | tuple[Any, ...]", value)
        if items and all(isinstance(item, Message) for item in items):
            return (*items, assistant(f"canary-{canary}"))
        changed = [_plant(item, canary) for item in items]
        if all(item is None for item in changed):
            return None
        return type(items)(old if new is None else new for old, new in zip(items, changed, strict=True))
    return None


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdigit()
