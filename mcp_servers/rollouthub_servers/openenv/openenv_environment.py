"""`OpenEnv`: the environment class that an imported OpenEnv environment becomes; an episode is one connection."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from mcp_types import TextContent, Tool
from pydantic import Field, JsonValue

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, TaskError, ToolError
from rollouthub.messages import Message, Text
from rollouthub.task import Public, Secret, Task
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign_app.app_episode import AppConfig, AppEpisode, check_tool_names
from rollouthub_servers.foreign_app.app_record import read_record
from rollouthub_servers.openenv.openenv_record import OpenEnvRecord
from rollouthub_servers.openenv.shown_fields import is_judging, is_telling, result_text, shown_text

TRAIN_SEEDS = 1_000_000
"""First seed of the split `train`."""
_STEP = "step"
_ENVELOPE = frozenset(("metadata", "type"))


class OpenEnvConfig(AppConfig):
    """Settings of the episodes, and of the fields that agents see."""

    resets: tuple[dict[str, JsonValue], ...] = ({},)
    """Arguments of the environment's `reset`; each entry is a task for every seed."""
    seeds: int = Field(default=10, ge=1, le=TRAIN_SEEDS)
    """Number of tasks for each entry of `resets`, with consecutive seeds: from 0 in the split `test`, from 1,000,000
    in `train`.
    """
    show: tuple[str, ...] = ()
    """Fields of an observation that agents see; empty takes those that the import chose. A field that reveals a
    reward or an answer is never shown.
    """
    tools: tuple[str, ...] = ()
    """Tools of an MCP mode that agents are offered; empty takes all but those that may tell what an action was worth,
    such as `verify`.
    """
    prompt: str = ""
    """The agent's first instructions; empty takes the environment's own description."""


class OpenEnv(AppEpisode, Environment[OpenEnvConfig]):
    """An environment of OpenEnv, played as it is (`hub import openenv`)."""

    def __init__(self, task: Task[Public, Secret], config: OpenEnvConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.config: OpenEnvConfig = config
        self.record: OpenEnvRecord = read_record(OpenEnvRecord, Path(config.data))
        self.opening = ""
        self._tools: dict[str, Tool] = {}

    @classmethod
    def program(cls, config: Any) -> ForeignProgram:
        """The description that the import wrote."""
        return read_record(OpenEnvRecord, Path(config.data)).installed(Path(config.data))

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The same resets from seeds that do not meet."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: OpenEnvConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Each reset from its seeds; the run's seed changes nothing, so that a task is the environment's own."""
        record = read_record(OpenEnvRecord, Path(config.data))
        shown_fields(record, config.show)
        known = (*record.tools, *record.judging)
        if unknown := [name for name in config.tools if name not in known]:
            raise ConfigError(f"tools={unknown[0]!r}: {record.name} has no such tool; it has {', '.join(known)}")
        first = TRAIN_SEEDS if split == "train" else 0
        for number in range(len(config.resets)):
            name = record.name if len(config.resets) == 1 else f"{record.name}-{number}"
            for each in range(first, first + config.seeds):
                yield Task(
                    Public(
                        id=f"{name}/{each}",
                        prompt=config.prompt or _prompt(record),
                        source=name,
                        metadata={"reset": number, "seed": each},
                    ),
                    Secret(),
                )

    async def setup(self) -> None:
        """Reset the environment, and list its tools where it has MCP tools."""
        where = self.task.public.metadata
        given = self.config.resets[int(str(where["reset"]))]
        answer = await self.begin("reset", seed=where["seed"], given=given)
        self.opening = self._shown(answer)
        if self.record.mcp is None:
            self._tools = {_STEP: _step_tool(self.record)}
            return
        listed = await self.session.ask("tools", seconds=self.config.step_seconds, form=self.record.mcp)
        self._tools = {tool.name: tool for tool in offered_tools(read_tools(listed), self.config.tools)}

    def task_tools(self) -> Sequence[Tool]:
        """`step`, or what its MCP mode lists."""
        return list(self._tools.values())

    def messages(self, seat: str) -> Sequence[Message]:
        """The prompt, and the first observation."""
        told = (str(self.task.public.prompt), self.opening)
        return [Message(role="user", content=tuple(Text(text=text) for text in told if text))]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Perform an action, and return the next observation."""
        if self.record.mcp is None:
            self._check_arguments(arguments)
            answer = await self.act("step", action=arguments)
        else:
            answer = await self.act("call", name=name, given=arguments)
        if "broke" in answer:
            return [TextContent(text="It is over.")]
        if self.record.mcp is not None:
            self._require_known(answer["observation"])
            text, is_error = result_text(answer["observation"])
            if is_error:
                raise ToolError(text)
        else:
            text = self._shown(answer)
        return [TextContent(text=f"{text}\nIt is over.".strip() if self.is_done else text)]

    def _check_arguments(self, arguments: dict[str, Any]) -> None:
        """Refuse what `step` does not offer: an action of OpenEnv has fields that are not the agent's, too."""
        offered = self._tools[_STEP].input_schema.get("properties", {})
        if unknown := [name for name in arguments if name not in offered]:
            raise ToolError(f"step takes no {unknown[0]!r}; it takes {', '.join(offered) or 'nothing'}")

    def _shown(self, answer: dict[str, Any]) -> str:
        observation: dict[str, Any] = answer["observation"]
        self._require_known(observation)
        return shown_text(observation, shown_fields(self.record, self.config.show))

    def _require_known(self, observation: dict[str, Any]) -> None:
        known = {*self.record.shown, *self.record.withheld}
        if unknown := sorted(name for name in observation if name not in known):
            raise TaskError(
                f"an observation of {self.record.name} has the field {unknown[0]!r}, which its import did not see; "
                "import it again",
                retryable=False,
            )


def shown_fields(record: OpenEnvRecord, chosen: Sequence[str]) -> Sequence[str]:
    """The fields that are shown.

    Raises:
        ConfigError: one of the chosen tells what an action was worth, or there is none of that name.
    """
    for name in chosen:
        if is_telling(name):
            raise ConfigError(f"show={name!r}: a field of this name is the verifier's, and never shown")
        if name not in (*record.shown, *record.withheld):
            known = [each for each in (*record.shown, *record.withheld) if not is_telling(each)]
            raise ConfigError(f"show={name!r}: {record.name} has no such field; it has {', '.join(known)}")
    return chosen or record.shown


def offered_tools(tools: Sequence[Tool], chosen: Sequence[str]) -> list[Tool]:
    """The tools that agents are offered: the chosen ones, else those that do not judge.

    Raises:
        ConfigError: there is none.
    """
    offered = [tool for tool in tools if (tool.name in chosen if chosen else not is_judging(tool.name))]
    if not offered:
        names = ", ".join(tool.name for tool in tools)
        raise ConfigError(
            f"each of its tools may tell what an action was worth: {names}; name those that agents are "
            f"offered: --set 'tools=[\"{tools[0].name}\"]'"
        )
    return offered


def read_tools(listed: Any) -> list[Tool]:
    """Tools as either form of the MCP mode lists them.

    Raises:
        ConfigError: one is called like a tool of the hub's, or is no tool.
    """
    tools: list[Tool] = []
    for each in cast("list[dict[str, Any]]", listed) if isinstance(listed, list) else ():
        schema: dict[str, Any] = (
            each.get("input_schema") or each.get("inputSchema") or {"type": "object", "properties": {}}
        )
        tools.append(Tool(name=str(each["name"]), description=str(each.get("description") or ""), input_schema=schema))
    check_tool_names(tool.name for tool in tools)
    if not tools:
        raise ConfigError("it lists no tool")
    return tools


def _step_tool(record: OpenEnvRecord) -> Tool:
    schema = {name: value for name, value in record.action.items() if name not in ("title", "description")}
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in _ENVELOPE}
    required = [name for name in schema.get("required", ()) if name in properties]
    return Tool(
        name=_STEP,
        description=f"Act, and see what comes of it.\n\n{record.actions}".strip(),
        input_schema={
            **schema,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
    )


def _prompt(record: OpenEnvRecord) -> str:
    how = "with its tools" if record.mcp is not None else f"with the tool `{_STEP}`"
    about = "" if record.about in ("", f"{record.title} environment") else f"\n\n{record.about}"
    return f"You act in the environment {record.name} {how}; each call answers with what you observe next.{about}"
