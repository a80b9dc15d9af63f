"""The environment objects that TRL plays with: each plays one episode at a time, and its methods are the tools."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import msgspec
from anyio.from_thread import BlockingPortal
from mcp_types import CallToolResult, ImageContent, TextContent, Tool

from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.errors import ConfigError, EpisodeError, ToolError, UnknownNameError
from rollouthub.export import TaskReference
from rollouthub.hosting.local.toolbox import GET_TASK
from rollouthub.messages import Message, ToolRequest
from rollouthub.protocols import AgentPlane, Episode
from rollouthub.score import Score, Submission
from rollouthub.trainers.stream.pending_group import seed_of
from rollouthub.trainers.trl.prompt_images import words_of
from rollouthub.trainers.trl.tool_methods import methods_of

logger = logging.getLogger(__name__)


class Playground:
    """One hosted environment, and what its player objects need of it."""

    def __init__(self, portal: BlockingPortal, opened: OpenEnvironment, seed: int) -> None:
        self.portal, self.opened, self.seed = portal, opened, seed
        self.players: list[HubPlayer] = []
        """All player objects of this environment, so that every episode can be closed."""

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.opened.host.info.name

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that a policy is shown, without `get_task`, because TRL itself gives it the task."""
        return tuple(tool for tool in self.opened.host.info.tools if tool.name != GET_TASK)

    def open(self, task_id: str, split: str) -> AbstractContextManager[Episode]:
        """Open an episode of a task; the environment's seed is the same for every episode of the task."""
        host, split = self.opened.host, split or self.opened.split
        card = self.portal.call(host.find_task, split, task_id, self.seed)
        seed = seed_of("\0".join((str(self.seed), self.name, split, task_id)))
        return self.portal.wrap_async_context_manager(
            host.open(card, seed=seed, deadlines=self.opened.deadlines)  # pyright: ignore[reportArgumentType]
        )


class HubPlayer:
    """An object for TRL's `environment_factory`; each subclass has the tools of one environment as methods."""

    def __init__(self, playground: Playground) -> None:
        self._playground = playground
        self._episode: Episode | None = None
        self._context: AbstractContextManager[Episode] | None = None
        self._verdict: Score | None = None
        playground.players.append(self)

    def reset(self, **row: Any) -> str | None:
        """Open an episode of the row's task. Returns initial messages that the row's prompt does not contain, or
        None.
        """
        self._close()
        self._verdict = None
        reference = TaskReference.parse(str(row.get("task")))
        if reference.environment != self._playground.name:
            raise UnknownNameError(
                "environment of this object",
                reference.environment,
                [self._playground.name],
                "(the row's column `task`)",
            )
        try:
            self._context = self._playground.open(reference.task_id, reference.split)
            self._episode = self._context.__enter__()
        except EpisodeError:
            # Its tools say so, and it has no reward.
            logger.exception("an episode of task %r could not be opened", reference.task_id)
            self._context = None
            return None
        return _beyond(row.get("prompt"), self._plane(self._episode).messages)

    def _plane(self, episode: Episode) -> AgentPlane:
        return next(iter(episode.seats.values()))

    def _call(self, tool: str, arguments: dict[str, Any]) -> str | list[dict[str, Any]]:
        """Call a tool; TRL shows a raised error to its policy, and counts it.

        Raises:
            ToolError: the tool returned an error, or the episode is over.
        """
        if self._episode is None:
            raise ToolError("the episode is over")
        result = self._playground.portal.call(self._plane(self._episode).call_tool, tool, arguments)
        content = _content(result)
        if result.is_error:
            raise ToolError(content if isinstance(content, str) else "the tool failed")
        return content

    def _conclude(self, transcript: Sequence[Message] = ()) -> float | None:
        """Seal, verify and close the episode. Returns its reward; None if it is unscored. Later calls return the
        same reward.
        """
        if self._episode is not None:
            submission = Submission(transcript=tuple(transcript), stop="finished")
            try:
                self._verdict = self._playground.portal.call(self._episode.conclude, submission)
                if self._verdict is None:
                    logger.warning("an episode has no verdict: %s", [fault.message for fault in self._episode.faults])
            except EpisodeError:
                logger.exception("an episode has no verdict")
            finally:
                self._close()
        return None if self._verdict is None else self._verdict.reward

    def _close(self) -> None:
        context, self._context, self._episode = self._context, None, None
        if context is not None:
            context.__exit__(None, None, None)


def player_class(name: str, tools: Iterable[Tool], *, owns_reward: bool) -> type[HubPlayer]:
    """A subclass of `HubPlayer` whose methods are the given tools; with `owns_reward` it also has `get_reward`, which
    TRL then calls.

    Raises:
        ConfigError: a tool cannot be made a method.
    """

    def call(self: HubPlayer, tool: str, arguments: dict[str, Any]) -> Any:
        return self._call(tool, arguments)  # pyright: ignore[reportPrivateUsage]

    def get_reward(self: HubPlayer) -> float | None:
        """The verifier's reward for the final state of the episode."""
        return self._conclude()  # pyright: ignore[reportPrivateUsage]

    methods: dict[str, Callable[..., Any]] = dict(methods_of(tuple(tools), call))
    if owns_reward:
        methods["get_reward"] = get_reward
    title = "".join(part.capitalize() for part in name.replace("/", "_").replace("-", "_").split("_"))
    return type(title or "Hub", (HubPlayer,), {"__doc__": f"Plays {name}.", "__module__": __name__, **methods})


def _content(result: CallToolResult) -> str | list[dict[str, Any]]:
    """A tool result in TRL's form: text, or content blocks if it has pictures."""
    blocks: list[dict[str, Any]] = []
    for block in result.content:
        if isinstance(block, TextContent):
            blocks.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageContent):
            blocks.append({"type": "image", "image": _picture(block.data)})
        else:
            blocks.append({"type": "text", "text": f"[{block.type}]"})
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _picture(data: str) -> Any:
    import base64
    import io

    try:
        from PIL import Image  # a policy that sees pictures has it
    except ImportError as error:
        raise ConfigError("a tool shows a picture, and pictures need Pillow: pip install pillow") from error
    return cast(Any, Image).open(io.BytesIO(base64.b64decode(data)))


def _beyond(prompt: object, messages: Sequence[Message]) -> str | None:
    """The episode's initial messages that are not in the row's prompt, as text; None if there are none."""
    shown = [
        (str(message.get("role")), words_of(message.get("content")))
        for message in cast(list[Mapping[str, Any]], prompt if isinstance(prompt, list) else [])
    ]
    said = [(message.role, message.text) for message in messages]
    if said == shown:
        return None
    rest = said[len(shown) :] if said[: len(shown)] == shown else [each for each in said if each not in shown]
    return "\n\n".join(text for _, text in rest) or None


def as_transcript(messages: object) -> tuple[Message, ...]:
    """TRL's conversation as the hub's messages, for verifiers that read it; messages of unknown roles are left out."""
    found: list[Message] = []
    for place, message in enumerate(cast(list[Mapping[str, Any]], messages if isinstance(messages, list) else [])):
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "user", "assistant", "tool"):
            continue
        calls = cast(list[Mapping[str, Any]], message.get("tool_calls") or [])
        found.append(
            Message(
                role=role,
                content=content if isinstance(content, str) else _words(content),
                tool_requests=tuple(_request(call, f"call-{place}-{number}") for number, call in enumerate(calls)),
                tool_call_id=str(message.get("tool_call_id") or message.get("name")) if role == "tool" else None,
            )
        )
    return tuple(found)


def _words(content: object) -> str:
    parts = cast(list[Mapping[str, Any]], content if isinstance(content, list) else [])
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


def _request(call: Mapping[str, Any], identity: str) -> ToolRequest:
    function = cast(Mapping[str, Any], call.get("function") or call)
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    return ToolRequest(id=str(call.get("id") or identity), name=str(function.get("name")), arguments=text)
