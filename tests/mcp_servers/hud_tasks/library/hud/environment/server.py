"""Running one task."""

# pyright: basic

from typing import Any


class TaskRunner:
    """A suspended generator."""

    def __init__(self, task: Any, args: "dict[str, Any]") -> None:
        self.made = task.func(**args)

    async def start(self) -> "dict[str, Any]":
        """Its prompt."""
        prompt = await self.made.__anext__()
        return prompt if isinstance(prompt, dict) else {"prompt": prompt}

    async def grade(self, payload: "dict[str, Any]") -> "dict[str, Any]":
        """Its grade."""
        grade = await self.made.asend(payload["answer"])
        return grade if isinstance(grade, dict) else {"score": grade}
