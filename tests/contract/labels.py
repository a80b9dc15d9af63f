"""An environment whose tasks bring tools of their own, alike in name and not in form."""

from collections.abc import Iterator, Sequence
from typing import Any

from mcp_types import Tool

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, ToolRequest
from rollouthub.messages import assistant, user


class Labels(Environment[EnvironmentConfig]):
    """Each task has a tool `mark` with an argument of another name."""

    turns = 0

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Four tasks: the third brings no tool, the last one but in its second turn."""
        for name in ("colour", "shape", "none", "late"):
            call = ToolRequest(id="1", name="mark", arguments=f'{{"{name}": "x"}}')
            reference = () if name in ("none", "late") else (assistant("", call),)
            yield Task(Public(id=name, prompt=f"Mark the {name}."), Secret(reference=reference))

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """One further turn."""
        self.turns += 1
        return [user("Now mark it.")] if self.turns == 1 else None

    def task_tools(self) -> Sequence[Tool]:
        """The task's own."""
        name = self.task.id
        if name == "none" or (name == "late" and not self.turns):
            return ()
        properties = {name: {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}
        return [Tool(name="mark", description=f"Mark a {name}.", input_schema=schema)]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note what was marked."""
        self.marked = arguments
        return f"{name} {arguments}"

    async def verify(self, submission: Submission) -> Score:
        """Whether it was marked."""
        won = getattr(self, "marked", None) is not None
        return Score(reward=float(won), passed=won)
