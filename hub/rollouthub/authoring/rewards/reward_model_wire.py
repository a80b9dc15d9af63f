"""Requests and answers of reward models: vLLM's `/pooling`, `/classify`, `/score`; OpenRLHF's `/get_reward`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast


class Asked(NamedTuple):
    """One answer to be scored by a reward model."""

    question: str
    answer: str
    reference: str
    """The reference; empty if there is none."""


def request_of(route: str, model: str | None, batch: Sequence[Asked]) -> dict[str, Any]:
    """The body of a request; all routes but `get_reward` take one answer at a time."""
    if route == "get_reward":
        return {
            "query": [each.question + each.answer for each in batch],
            "prompts": [each.question for each in batch],
            "labels": [each.reference for each in batch],
        }
    (asked,) = batch
    if route == "score":
        return {"model": model, "text_1": asked.question, "text_2": asked.answer}
    # The model's own chat template makes text of them.
    messages = [{"role": "user", "content": asked.question}, {"role": "assistant", "content": asked.answer}]
    chat = {"messages": messages, "add_generation_prompt": False}
    return {"model": model, **chat}


def rewards_of(route: str, answer: object, count: int) -> list[object]:
    """The raw reward of each answer, not yet converted to a number.

    Raises:
        ValueError: the server's answer does not have `count` rewards.
    """
    if route == "get_reward":
        found = _list(_object(answer).get("rewards"), "rewards")
    else:
        key = {"pooling": "data", "classify": "probs", "score": "score"}[route]
        entries = [_object(each) for each in _list(_object(answer).get("data"), "data")]
        found = [entry.get(key) for entry in entries]
    if len(found) != count:
        raise ValueError(f"it has {len(found)} rewards for {count}")
    return found


def one_number(value: object, label: int | None) -> float:
    """The reward: the number itself; of a list, the one at `label`, else the last; of nested lists, from the last list.

    Raises:
        ValueError: there is none, or it is not finite.
    """
    if isinstance(value, list):
        numbers = cast(list[object], value)
        if numbers and isinstance(numbers[-1], list):  # a row for each token: the last has seen all
            numbers = cast(list[object], numbers[-1])
        place = -1 if label is None else label
        if not -len(numbers) <= place < len(numbers):
            raise ValueError(f"there are {len(numbers)} numbers, and none at {place}")
        value = numbers[place]
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ValueError(f"{str(value)[:80]!r} is no finite number")


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}, no object")
    return cast(dict[str, object], value)


def _list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"its {name!r} is no list")
    return cast(list[object], value)
