"""Small environments, each showing one thing that hosting does, and a way to open them."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import anyio
from mcp_types import CallToolResult, ImageContent, TextContent
from pydantic import JsonValue

from rollouthub import (
    BadRow,
    Deadlines,
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    SandboxError,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    VerifierError,
    tool,
)
from rollouthub.environment import AnyEnvironment
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import user

CANARY = "canary-7f3a"
"""Stands for whatever an agent must not see."""
PICTURE = ImageContent(data="aGk=", mime_type="image/png")

WorldT = TypeVar("WorldT", bound=Environment[Any])


class WorldConfig(EnvironmentConfig):
    """How a world behaves."""

    setup: Literal["ready", "raise", "hang"] = "ready"
    verify: Literal["score", "none", "nan", "hollow", "raise", "typed", "hang", "wait", "number", "truth"] = "score"
    close: Literal["done", "raise", "hang"] = "done"
    journal: list[str] = []
    """What happened, in order."""


class World(Environment[WorldConfig]):
    """One task; every step does as it is configured and leaves a line in the journal."""

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.may_score = anyio.Event()

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret] | BadRow]:
        yield Task(Public(id="one", prompt="Say yes.", system="Be brief."), Secret(answer="yes"))

    async def setup(self) -> None:
        self.config.journal.append("setup")
        if self.config.setup == "raise":
            raise OSError(f"no room for {CANARY}")
        if self.config.setup == "hang":
            await anyio.sleep_forever()

    async def verify(self, submission: Submission) -> Score | float:
        self.config.journal.append("verify")
        match self.config.verify:
            case "number":
                return 0.25
            case "truth":
                return True
            case "none":
                return None  # type: ignore[return-value]  # what a careless author may do
            case "nan":
                return Score(reward=float("nan"))
            case "hollow":
                return Score(reward=1.0).model_copy(update={"metrics": {"loss": float("nan")}})
            case "raise":
                raise KeyError(CANARY)
            case "typed":
                raise VerifierError("the judge is away", retryable=False)
            case "hang":
                await anyio.sleep_forever()
            case "wait":
                await self.may_score.wait()
            case "score":
                pass
        return Score(reward=float(submission.final == self.task.secret.answer), feedback=CANARY)

    async def close(self) -> None:
        self.config.journal.append("close")
        if self.config.close == "raise":
            raise OSError("still in use")
        if self.config.close == "hang":
            await anyio.sleep_forever()


class Workshop(World):
    """Tools that fail, wait, refuse to stop and bring pictures."""

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.notes: list[str] = []
        self.waiting = 0
        self.cleaned = 0
        self.is_waiting = anyio.Event()
        self.may_finish = anyio.Event()
        self.may_clean = anyio.Event()
        self.may_clean.set()

    @tool
    async def note(self, text: str) -> list[str]:
        """Write a note; all notes so far."""
        self.notes.append(text)
        return self.notes

    @tool
    async def refuse(self) -> str:
        raise ToolError("The drawer is locked.")

    @tool
    async def crash(self, kind: Literal["plain", "sandbox", "argument"] = "plain") -> str:
        if kind == "sandbox":
            raise SandboxError(f"the container of {CANARY} is gone")
        if kind == "argument":
            raise TypeError(f"{CANARY} is not a number")
        raise RuntimeError(f"the database at {CANARY} is down")

    @tool
    async def unspeakable(self) -> object:
        """Give what JSON cannot say."""
        return {"socket": object()}

    @tool
    async def wait(self) -> str:
        """Work until told to finish; leave the place clean in any case."""
        self.waiting += 1
        self.is_waiting.set()
        try:
            await self.may_finish.wait()
        finally:
            with anyio.move_on_after(5, shield=True):
                await self.may_clean.wait()
                self.cleaned += 1
        return "worked"

    @tool
    async def mutter(self) -> str:
        """Speak although cancelled."""
        self.is_waiting.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return CANARY

    @tool
    async def explode(self) -> str:
        """Break while cancelled."""
        self.is_waiting.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise RuntimeError(CANARY) from None
        return "never"

    @tool
    async def ignore(self) -> str:
        """Go on although cancelled."""
        self.is_waiting.set()
        with anyio.move_on_after(5, shield=True):
            await self.may_finish.wait()
        return "worked"

    @tool
    async def picture(self) -> ImageContent:
        return PICTURE

    @tool
    async def captioned(self) -> list[TextContent | ImageContent]:
        return [TextContent(text="a cat"), PICTURE]

    @tool
    async def weather(self, city: str) -> dict[str, object]:
        return {"city": city, "degrees": 21.5}


class Market(World):
    """Two seats with tools of their own, and a state that can be saved."""

    seats = ("buyer", "seller")

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.book: dict[str, list[int]] = {"bids": [], "offers": []}

    def messages(self, seat: str) -> Sequence[Message]:
        return [user(f"You are the {seat}.")]

    @tool(seats=("buyer",))
    async def bid(self, price: int) -> dict[str, list[int]]:
        self.book["bids"].append(price)
        return self.book

    @tool(seats=("seller",))
    async def offer(self, price: int) -> dict[str, list[int]]:
        self.book["offers"].append(price)
        return self.book

    @tool
    async def look(self) -> dict[str, list[int]]:
        return self.book

    def snapshot(self) -> JsonValue:
        return self.book  # pyright: ignore[reportReturnType]  # lists of int are JSON; `list` is invariant

    async def restore(self, state: JsonValue) -> None:
        assert isinstance(state, dict)
        self.book = state  # pyright: ignore[reportAttributeAccessIssue]  # what `snapshot` gave


class Interview(World):
    """A user who asks back twice, and can be driven to despair."""

    questions = ("Why?", "Really?")

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.heard: list[str] = []
        self.is_listening = anyio.Event()

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        self.is_listening.set()
        said = messages[-1].text
        if said == "crash":
            raise LookupError(CANARY)
        if said == "hang":
            await anyio.sleep_forever()
        self.heard.append(said)
        asked = len(self.heard)
        return [user(self.questions[asked - 1])] if asked <= len(self.questions) else None


def host_of(environment: AnyEnvironment, **config: Any) -> InProcessHost:
    """A host of a world so configured."""
    return InProcessHost("world", environment, environment.config_type(**config))


@asynccontextmanager
async def opened(
    environment: AnyEnvironment,
    *,
    seed: int = 0,
    state: JsonValue = None,
    deadlines: Deadlines | None = None,
    **config: Any,
) -> AsyncGenerator[HostedEpisode]:
    """An episode of the world's one task, with five seconds for everything."""
    host = host_of(environment, **config)
    with anyio.fail_after(5):
        task = next(iter(host.cards("test", seed)))
        assert not isinstance(task, BadRow)
        async with host.open(task, seed=seed, deadlines=deadlines or Deadlines(), state=state) as episode:
            assert isinstance(episode, HostedEpisode)
            yield episode


def world_of(episode: HostedEpisode, kind: type[WorldT]) -> WorldT:
    """The world behind an episode, to look at what the agent cannot see."""
    assert isinstance(episode.environment, kind)
    return episode.environment


async def call(episode: HostedEpisode, name: str, seat: str = "agent", /, **arguments: Any) -> CallToolResult:
    """Call a tool from a seat."""
    return await episode.seats[seat].call_tool(name, arguments)


def text_of(result: CallToolResult) -> str:
    """The words of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
