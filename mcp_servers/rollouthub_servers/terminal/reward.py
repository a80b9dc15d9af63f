"""Reads the rewards that a task's tests write, and combines them into a score."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from rollouthub.errors import VerifierError
from rollouthub.score import Component

MAIN = "reward"
REWARD_JSON, REWARD_TEXT = "reward.json", "reward.txt"

Rewards = dict[str, float]
"""Name → reward; a single one is named `reward`."""


def parse_text(data: bytes) -> Rewards:
    """Parse the number in a `reward.txt`.

    Raises:
        VerifierError: it is empty, not a number, or not finite; it is never taken as 0.
    """
    text = _text(data, REWARD_TEXT)
    try:
        value = float(text)
    except ValueError:
        raise _fault(f"{REWARD_TEXT} holds {text!r:.80}, which is no number") from None
    return {MAIN: _finite(value, REWARD_TEXT)}


def parse_json(data: bytes) -> Rewards:
    """Parse the number, or the numbers by name, in a `reward.json`.

    Raises:
        VerifierError: as for `parse_text`.
    """
    text = _text(data, REWARD_JSON)
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise _fault(f"{REWARD_JSON} holds {text!r:.80}, which is no JSON") from None
    if not isinstance(value, dict):
        return {MAIN: _number(value, REWARD_JSON)}
    named = cast(dict[str, Any], value)
    if not named:
        raise _fault(f"{REWARD_JSON} holds no reward")
    return {name: _number(reward, f"{REWARD_JSON}, {name!r}") for name, reward in named.items()}


@dataclass(frozen=True)
class Total:
    """One reward, with the components it is made of."""

    reward: float
    components: dict[str, Component]


def total(rewards: Mapping[str, float], key: str | None) -> Total:
    """The reward `key`, else `reward`, else the mean of all; components that do not count have weight 0.

    Raises:
        VerifierError: there is no reward `key`.
    """
    if key is not None and key not in rewards:
        raise _fault(f"the tests gave no reward {key!r}; they gave: {', '.join(rewards)}")
    main = key or (MAIN if MAIN in rewards else None)
    if main is not None:
        parts = {name: Component(value=value, weight=float(name == main)) for name, value in rewards.items()}
        return Total(rewards[main], parts if len(parts) > 1 else {})
    share = 1 / len(rewards)
    parts = {name: Component(value=value, weight=share) for name, value in rewards.items()}
    return Total(sum(rewards.values()) * share, parts)


def over_steps(names: Sequence[str], reached: Sequence[Total], strategy: str) -> Total:
    """A multi-step task's reward: its steps' mean, or the last one's; an unreached step counts 0."""
    values = [part.reward for part in reached] + [0.0] * (len(names) - len(reached))
    last = len(names) - 1
    weights = [1 / len(names) if strategy == "mean" else float(index == last) for index in range(len(names))]
    parts = {
        name: Component(value=value, weight=weight) for name, value, weight in zip(names, values, weights, strict=True)
    }
    for name, part in zip(names, reached, strict=False):
        parts |= {f"{name}.{key}": Component(value=own.value, weight=0.0) for key, own in part.components.items()}
    return Total(sum(value * weight for value, weight in zip(values, weights, strict=True)), parts)


def _text(data: bytes, file: str) -> str:
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise _fault(f"{file} is no text") from None
    if not text:
        raise _fault(f"{file} is empty")
    return text


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(f"{where} holds {value!r:.80}, which is no number")
    try:
        return _finite(float(value), where)
    except OverflowError:
        raise _fault(f"{where} holds a number that is too large") from None


def _finite(value: float, where: str) -> float:
    if not isfinite(value):
        raise _fault(f"{where} holds {value}, which is not finite")
    return value


def _fault(problem: str) -> VerifierError:
    return VerifierError(f"the tests left no reward: {problem}", retryable=False)
