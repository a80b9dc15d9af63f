"""An environment whose annotations are strings until asked for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


class Size(Enum):
    """A choice by value."""

    SMALL = "small"
    LARGE = "large"


class Point(BaseModel):
    """A nested argument."""

    x: int
    y: int = 0


class Postponed(Environment[EnvironmentConfig]):
    """One tool for each kind of argument; each says what it was given."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="only", prompt="Look around."), Secret())

    @tool
    async def scalars(self, count: int, ratio: float, label: str, is_on: bool) -> str:
        """Take one of each.

        Args:
            count: How many,
                all told.
            ratio (float): Of what to what.

        Returns:
            What it was given.
        """
        return repr((count, ratio, label, is_on))

    @tool
    async def choices(self, side: Literal["left", "right"], size: Size) -> str:
        return repr((side, size))

    @tool
    async def nested(self, at: Point, path: list[Point] = []) -> str:  # noqa: B006
        return repr((at, path))

    @tool
    async def optional(self, limit: int | None = None, tags: list[str] | None = None, note: str = "none") -> str:
        return repr((limit, tags, note))

    @tool
    async def bounded(self, age: Annotated[int, Field(ge=0, le=150, description="In years.")] = 40) -> str:
        return repr(age)

    @tool
    async def shapes(self, pair: tuple[int, int], when: date, names: dict[str, float], anything: Any = None) -> str:
        return repr((pair, when, names, anything))

    @tool
    async def clashing(self, schema: str, json: int = 0, copy: bool = False, model_config: str = "") -> str:
        return repr((schema, json, copy, model_config))

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=0.0)
