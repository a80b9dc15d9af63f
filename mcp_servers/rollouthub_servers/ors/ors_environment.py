"""`Ors`: the environment class that an environment of an ORS server becomes; an episode is a session of its own."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp_types import TextContent, Tool
from pydantic import Field

from rollouthub.environment import Environment
from rollouthub.errors import TaskError, ToolError, VerifierError
from rollouthub.messages import Media, Message, Text, picture
from rollouthub.score import Score, Submission
from rollouthub.task import Public, Secret, Task
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.session import ForeignRefusal
from rollouthub_servers.foreign_app.app_episode import AppConfig, AppEpisode, check_tool_names
from rollouthub_servers.foreign_app.app_record import read_record
from rollouthub_servers.ors.ors_record import OrsRecord

MOST_SHOWN = 200_000


class OrsConfig(AppConfig):
    """Settings of the tasks, and of group comparisons."""

    most: int | None = Field(default=None, ge=1)
    """Maximum number of tasks of a split, counted from its first; all by default."""
    group_seconds: float = Field(default=300.0, gt=0)
    """Maximum seconds for one `score_group` call."""


class Ors(AppEpisode, Environment[OrsConfig]):
    """One environment of an ORS server, played as it is (`hub import ors`)."""

    def __init__(self, task: Task[Public, Secret], config: OrsConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.config: OrsConfig = config
        self.opening: list[Text | Media] = []
        self._tools: dict[str, Tool] = {}
        self._terminal: dict[str, Any] | None = None

    @classmethod
    def program(cls, config: Any) -> ForeignProgram:
        """The description that the import wrote."""
        return read_record(OrsRecord, Path(config.data)).installed(Path(config.data))

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """The names of the server's splits, as the import recorded them."""
        return tuple(read_record(OrsRecord, Path(config.data)).splits)

    @classmethod
    def tasks(cls, config: OrsConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """The server's, by their places; what a task holds stays with it, the answer is in there."""
        record = read_record(OrsRecord, Path(config.data))
        count = record.splits[split]
        for index in range(count if config.most is None else min(count, config.most)):
            yield Task(
                Public(
                    id=f"{record.name}/{split}/{index}",
                    prompt=f"A task of {record.name}.",
                    source=record.name,
                    metadata={"split": split, "index": index},
                ),
                Secret(),
            )

    async def setup(self) -> None:
        """Create the server's session, and get its prompt and its tools."""
        answer = await self._begun()
        self.opening = parts_of(answer["blocks"])
        self._tools = {tool.name: tool for tool in tools_of(answer["tools"])}
        self._terminal = answer.get("terminal")

    async def _begun(self) -> dict[str, Any]:
        where, record = self.task.public.metadata, read_record(OrsRecord, Path(self.config.data))
        return await self.begin(
            "begin", name=record.name, split=where["split"], index=where["index"], seed=int(str(where["index"]))
        )

    def task_tools(self) -> Sequence[Tool]:
        """The server's tools, including those of this task."""
        return list(self._tools.values())

    def messages(self, seat: str) -> Sequence[Message]:
        """The server's prompt."""
        return [Message(role="user", content=tuple(self.opening))]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Call a tool; its reward is not shown to the agent."""
        answer = await self.act("call", name=name, given=arguments)
        if "broke" in answer:
            return [TextContent(text="It is over.")]
        parts = parts_of(answer["blocks"])
        return [TextContent(text=part.text) if isinstance(part, Text) else part for part in parts] or [
            TextContent(text="")
        ]

    async def verify(self, submission: Submission) -> Score:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What the server gave; where its last tool takes what the agent says at the end, that is passed on first."""
        terminal = self._terminal
        if terminal is not None and not self.is_over and not self.is_done:
            argument = terminal.get("arg")
            given = {} if argument is None else {str(argument): submission.final}
            try:
                await self.act("call", name=str(terminal["name"]), given=given)
            except (TaskError, ToolError) as error:
                raise VerifierError(str(error)) from error
        return super().verify(submission)


class OrsGroups(Ors, Environment[OrsConfig]):
    """One that compares the samples of a task with each other, too (`score_group`)."""

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score | float]:
        """The server's own comparison, in a session of its own; what each sample earned alone is a part of it."""
        runtime = self._runtime(self.config)
        candidates = [{"messages": _said(each)} for each in submissions]
        try:
            async with runtime.session(is_alone=self.config.alone) as self.session:
                await self._begun()
                rewards: list[float] = await self.session.ask(
                    "score_group", seconds=self.config.group_seconds, candidates=candidates
                )
        except (TaskError, ForeignRefusal) as error:
            raise VerifierError(str(error)) from error
        alone = {member.sample: member.score for member in self.group.members}
        return [
            Score(reward=float(reward), metrics={"alone": score.reward} if score is not None else {})
            for reward, score in zip(rewards, alone.values(), strict=True)
        ]


def parts_of(blocks: Any) -> list[Text | Media]:
    """Blocks as parts of a message.

    Raises:
        TaskError: one is of a kind that is not known, or is no picture.
    """
    parts: list[Text | Media] = []
    for block in blocks:
        if block.get("type") == "text":
            parts.append(Text(text=str(block["text"])[:MOST_SHOWN]))
        elif block.get("type") == "image":
            try:
                parts.append(picture(b64decode(block["data"], validate=True)))
            except ValueError as error:
                raise TaskError(f"the server shows what is no picture: {error}") from error
        else:
            raise TaskError(f"the server shows a block of the kind {str(block.get('type'))[:60]!r}")
    return parts


def tools_of(listed: Any) -> list[Tool]:
    """Tools as the server lists them.

    Raises:
        ConfigError: one is called like a tool of the hub's.
    """
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    tools = [
        Tool(
            name=str(each["name"]),
            description=str(each.get("description") or ""),
            input_schema=each.get("input_schema") or empty,
        )
        for each in listed
    ]
    check_tool_names(tool.name for tool in tools)
    return tools


def _said(submission: Submission) -> list[dict[str, Any]]:
    """What a sample said at the end, as its server takes it: judges see the output, not the way."""
    return [{"role": "assistant", "blocks": [{"type": "text", "text": submission.final}]}]
