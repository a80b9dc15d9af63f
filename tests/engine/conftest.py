"""A small world, and models that say what a test tells them."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from rollouthub import (
    BadRow,
    Environment,
    EnvironmentConfig,
    Limits,
    Message,
    ModelReply,
    ModelRequest,
    Public,
    Sampling,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.hosting import InProcessHost
from rollouthub.limits import Deadlines
from rollouthub.messages import assistant
from rollouthub.protocols import Agent
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef, Usage


class CounterConfig(EnvironmentConfig):
    """How the counter behaves."""

    goal: int = 2
    breaks_in: str = ""
    """Where it raises: setup, tool, verify or close."""


class Counter(Environment[CounterConfig]):
    """Count up to the goal."""

    @classmethod
    def tasks(cls, config: CounterConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(1000):
            reference = (
                assistant("", *(ToolRequest(id=str(n), name="add", arguments="{}") for n in range(config.goal))),
                assistant("done"),
            )
            yield Task(Public(id=f"{split}/{index}", prompt="count"), Secret(reference=reference))

    async def setup(self) -> None:
        self.count = 0
        self._break("setup")

    @tool
    async def add(self, step: int = 1) -> str:
        """Add to the counter."""
        self._break("tool")
        if step < 0:
            raise ToolError("only upwards")
        self.count += step
        return str(self.count)

    @tool
    async def wait(self) -> str:
        """Never ends by itself."""
        await anyio.sleep_forever()
        return ""

    async def verify(self, submission: Submission) -> Score:
        self._break("verify")
        return Score(reward=min(1.0, self.count / self.config.goal), passed=self.count == self.config.goal)

    async def close(self) -> None:
        self._break("close")

    def _break(self, place: str) -> None:
        if self.config.breaks_in == place:
            raise RuntimeError(f"broken in {place}")


Reply = str | Message | ModelReply | Exception


class TellModel:
    """Says what it is told, call by call; then the last again."""

    name = "test/tell"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies, self.requests = list(replies), list[ModelRequest]()

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The next reply."""
        self.requests.append(request)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        await anyio.lowlevel.checkpoint()
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ModelReply):
            return reply
        message = assistant(reply) if isinstance(reply, str) else reply
        return ModelReply(message=message, finish_reason="stop", usage=Usage(prompt_tokens=7, output_tokens=5))


def calls(*requests: tuple[str, str]) -> Message:
    """An assistant message that asks for tools."""
    return assistant("", *(ToolRequest(id=f"call-{n}", name=name, arguments=a) for n, (name, a) in enumerate(requests)))


Player = Callable[..., Attempt]


@pytest.fixture
def attempt() -> Player:
    """Makes an attempt at a counter task."""

    def make(
        agent: Agent,
        model: TellModel | None = None,
        *,
        limits: Limits | None = None,
        deadlines: Deadlines | None = None,
        sampling: Sampling | None = None,
        environment: type[Environment[CounterConfig]] = Counter,
        track: Callable[[Attempt], None] = lambda attempt: None,
        **config: object,
    ) -> Attempt:
        host = InProcessHost("counter", environment, CounterConfig.model_validate(config))
        card = next(iter(host.cards("test", 0)))
        assert not isinstance(card, BadRow)
        context = SampleContext(
            run_id="run",
            host=host,
            environment=EnvironmentRef(name="counter", version="1", digest="d"),
            agent=agent,
            agent_ref=AgentRef(name=agent.name, version=agent.version),
            model=model,
            sampling=sampling or Sampling(),
            limits=limits or Limits(),
            deadlines=deadlines or Deadlines(),
        )
        task = TaskRef(split="test", id=card.public.id, digest=card.digest)
        return Attempt(Sample(context, card, task, "group", "group-0", 0, 1, None), 0, 0.0, track)

    return make


@asynccontextmanager
async def bounded(seconds: float = 5) -> AsyncGenerator[None]:
    """A test waits no longer than this."""
    with anyio.fail_after(seconds):
        yield
