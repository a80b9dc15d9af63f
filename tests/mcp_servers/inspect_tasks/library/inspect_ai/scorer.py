"""Scores."""

# pyright: basic

from typing import Any


class Score:
    """What a scorer gives."""

    def __init__(self, value: Any, explanation: str = "") -> None:
        self.value, self.explanation, self.answer = value, explanation, None


def value_to_float() -> Any:
    """How a value is counted."""
    known = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
    return lambda value: known[value] if isinstance(value, str) else float(value)


def includes() -> Any:
    """Whether the target is in the answer."""

    async def includes(state: Any, target: str) -> Score:
        return Score("C" if target in state.output.text else "I", state.output.text)

    return includes
