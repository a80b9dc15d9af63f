"""Tasks made of a few functions, with a defect that is known or with none: what the audit is measured on."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, ClassVar

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
)
from rollouthub.environment import AnyEnvironment
from rollouthub.messages import assistant, user
from rollouthub_registry.check.defect_class import DefectClass

State = dict[str, Any]
"""What an episode's tools change."""
Verdict = float | bool | Score
Judge = Callable[[str, State], Verdict | Awaitable[Verdict]]
"""Judges what was answered, and the state in which that left the episode."""


@dataclass(frozen=True)
class MadeTool:
    """A tool of one task."""

    run: Callable[..., object]
    """Gets the state and the arguments; what it raises is a tool error."""
    about: str = "A tool."
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Name → JSON schema."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the definition."""


TEXT: Mapping[str, Any] = {"type": "string"}
WHOLE: Mapping[str, Any] = {"type": "integer"}


@dataclass(frozen=True)
class MadeTask:
    """A task, and what is wrong with it."""

    name: str
    prompt: str
    answer: str | None
    """The final answer of its reference solution; None if it gives none."""
    judge: Judge
    defect: DefectClass | None = None
    """The class of its defect; None if it has none."""
    also: frozenset[DefectClass] = frozenset()
    """Further classes that follow from the same defect."""
    steps: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """The calls of its reference solution."""
    tools: Mapping[str, MadeTool] = field(default_factory=dict[str, MadeTool])
    state: Callable[[], State] = dict
    opening: str | None = None
    """What the agent is told besides the prompt."""
    system: str = ""
    talk: Sequence[str] = ()
    """What the user says after each answer, before the last one is judged."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    floor: float = 0.0
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    close: Callable[[State], None] | None = None


class MadeTasks(Environment[EnvironmentConfig]):
    """An environment of such tasks."""

    scores_transcripts = True
    made: ClassVar[Mapping[str, MadeTask]] = {}

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.about = self.made[task.id]
        self.state = self.about.state()
        self.said = 0

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for name, made in cls.made.items():
            public = Public(id=name, prompt=made.prompt, system=made.system, metadata=dict(made.metadata))
            yield Task(public, Secret(answer=made.answer))

    def messages(self, seat: str) -> Sequence[Message]:
        opening = [] if self.about.opening is None else [user(self.about.opening)]
        return [*super().messages(seat), *opening]

    def task_tools(self) -> Sequence[Tool]:
        return [
            Tool(
                name=name,
                description=tool.about,
                input_schema={
                    "type": "object",
                    "properties": {key: dict(schema) for key, schema in tool.arguments.items()},
                    "required": list(tool.arguments),
                    "additionalProperties": False,
                },
                **tool.extra,
            )
            for name, tool in self.about.tools.items()
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        try:
            return self.about.tools[name].run(self.state, **arguments)
        except (ValueError, LookupError) as error:
            raise ToolError(str(error)) from error

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        if self.said >= len(self.about.talk):
            return None
        self.said += 1
        return [user(self.about.talk[self.said - 1])]

    def null_reward(self) -> float:
        return self.about.floor

    def audited_files(self) -> Mapping[str, str]:
        return self.about.files

    def reference(self) -> Sequence[Message]:
        calls = [
            assistant("", ToolRequest(id=f"{number}", name=name, arguments=json.dumps(dict(arguments))))
            for number, (name, arguments) in enumerate(self.about.steps)
        ]
        talk = [assistant("Yes.") for _ in self.about.talk]
        return [*calls, *talk, *([] if self.about.answer is None else [assistant(self.about.answer)])]

    def snapshot(self) -> JsonValue:
        return json.loads(json.dumps(self.state, default=str))

    async def verify(self, submission: Submission) -> Score | float:
        verdict = self.about.judge(submission.final, self.state)
        return await verdict if isawaitable(verdict) else verdict

    async def close(self) -> None:
        if self.about.close is not None:
            self.about.close(self.state)


def environment_of(name: str, tasks: Sequence[MadeTask]) -> AnyEnvironment:
    """An environment of these tasks."""
    by_name = {task.name: task for task in tasks}
    assert len(by_name) == len(tasks), f"names of {name} are given twice"
    return type(name, (MadeTasks,), {"made": by_name, "__module__": __name__, "__doc__": f"Tasks: {name}."})
