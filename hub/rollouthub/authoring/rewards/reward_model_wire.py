"""Requests and answers of reward models: vLLM's `/pooling`, `/classify`, `/score`; OpenRLHF's `/get_reward`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rollouthub.authoring.rewards.judge_verdict import storable
from rollouthub.authoring.rewards.shown_parts import Parts
from rollouthub.messages import Media, data_url, media_bytes


class Asked(NamedTuple):
    """One answer to be scored by a reward model."""

    question: Parts
    answer: Parts
    reference: str
    """The reference; empty if there is none."""


def request_of(route: str, model: str | None, batch: Sequence[Asked]) -> dict[str, Any]:
    """The body of a request; all routes but `get_reward` take one answer at a time, and pictures in it.

    Raises:
        ValueError: the route cannot carry the media.
        ModelError: the bytes of a picture are missing.
    """
    if route == "get_reward":
        questions = [_text(each.question) for each in batch]
        return {
            "query": [question + _text(each.answer) for question, each in zip(questions, batch, strict=True)],
            "prompts": questions,
            "labels": [storable(each.reference) for each in batch],
        }
    (asked,) = batch
    question, answer = _content(asked.question), _content(asked.answer)
    if route == "score":
        first, second = (each if isinstance(each, str) else {"content": each} for each in (question, answer))
        return {"model": model, "text_1": first, "text_2": second}
    # The model's own chat template makes text of them.
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    chat = {"messages": messages, "add_generation_prompt": False}
    return {"model": model, **chat}


def _content(parts: Parts) -> str | list[dict[str, Any]]:
    if all(isinstance(part, str) for part in parts):
        return _text(parts)
    return [_part(part) for part in parts]


def _part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": storable(part)}
    if not part.mime_type.startswith("image/"):
        raise ValueError(f"reward models take text and pictures, and it would be shown {part.mime_type}")
    return {"type": "image_url", "image_url": {"url": data_url(media_bytes(part, {}), part.mime_type)}}


def _text(parts: Parts) -> str:
    if shown := next((part for part in parts if isinstance(part, Media)), None):
        raise ValueError(f"/get_reward takes text alone, and it would be shown {shown.mime_type}; take another route")
    return storable("".join(part for part in parts if isinstance(part, str)))


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
