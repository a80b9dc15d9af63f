"""Everything a tool can do, in one environment; it is served from this file in a process of its own."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import anyio
from mcp_types import CallToolResult, ImageContent, TextContent, Tool
from pydantic import Field

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, ToolError, tool
from rollouthub.messages import assistant, user

CANARY = "canary-2b9d"
PICTURE = ImageContent(data="aGk=", mime_type="image/png")


class WorkbenchConfig(EnvironmentConfig):
    """Nothing to set but the answer."""

    answer: str = CANARY


class Workbench(Environment[WorkbenchConfig]):
    """Tools that speak, fail, wait and bring pictures, and a user who asks back."""

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.notes: list[str] = []
        self.started = self.cleaned = 0

    @classmethod
    def tasks(cls, config: WorkbenchConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(3):
            reference = (assistant("Why?"), assistant(config.answer))
            yield Task(
                Public(id=f"{split}/{index} ä", prompt=f"Say it, {index}: ü ☃.", system="Be brief."),
                Secret(answer=config.answer, reference=reference),
            )

    @classmethod
    def more_tools(cls, config: WorkbenchConfig) -> Sequence[Tool]:
        """A tool that data describes."""
        price = {"type": "integer", "minimum": 1}
        schema = {
            "type": "object",
            "properties": {"price": price},
            "required": ["price"],
            "additionalProperties": False,
        }
        return [Tool(name="offer", description="Make the last offer; this ends the episode.", input_schema=schema)]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Take the offer."""
        if arguments["price"] >= 10:
            self.end_episode()
        return {"taken": arguments["price"] >= 10}

    @tool
    async def note(self, text: Annotated[str, Field(description="What to note.")], times: int = 1) -> list[str]:
        """Write a note; all notes so far."""
        self.notes += [text] * times
        return self.notes

    @tool
    async def say(self, kind: Literal["words", "nothing", "object", "picture", "mixed", "result"]) -> object:
        """Answer in one of the ways there are."""
        match kind:
            case "words":
                return "naïve ☃ \u2028 words\n"
            case "nothing":
                return None
            case "object":
                return {"degrees": 21.5, "list": [1, None, True], "deep": {"er": "☃"}}
            case "picture":
                return PICTURE
            case "mixed":
                return [TextContent(text="a cat"), PICTURE]
            case "result":
                return CallToolResult(content=[TextContent(text="no")], is_error=True)

    @tool
    async def refuse(self) -> str:
        raise ToolError("The drawer is locked.")

    @tool
    async def crash(self) -> str:
        raise RuntimeError(f"the database at {self.config.answer} is down")

    @tool
    async def wait(self) -> str:
        """Work for ever; leave the place clean."""
        self.started += 1
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(5, shield=True):
                await anyio.lowlevel.checkpoint()
                self.cleaned += 1
        return "never"

    @tool
    async def tally(self) -> str:
        """How many waits began, and how many were cleaned up."""
        return f"{self.started} began, {self.cleaned} cleaned"

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        return [user("Because.")] if messages[-1].text == "Why?" else None

    async def verify(self, submission: Submission) -> Score:
        right = submission.final == self.task.secret.answer
        return Score(reward=float(right), passed=right, feedback=f"expected {self.task.secret.answer}")
