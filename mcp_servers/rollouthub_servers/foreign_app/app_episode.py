"""`AppEpisode`: one episode of an application in a process of its own. Answers carry rewards, which are not shown to
the agent.
"""

import math
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyio import to_thread
from pydantic import Field

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, SandboxOverrun, ToolError
from rollouthub.score import Score, Submission
from rollouthub.task import Public, Secret, Task
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession
from rollouthub_servers.foreign.tool_names import HUB_TOOLS


class AppConfig(EnvironmentConfig):
    """Settings of an imported application."""

    data: str
    """The folder that the import wrote."""
    step_seconds: float = Field(default=60.0, gt=0)
    """Maximum seconds for one call of the application."""
    alone: bool = False
    """Whether each episode starts a process of its own instead of forking a shared one: for code that does not
    survive a fork; costs seconds of start per episode.
    """
    total: Literal["sum", "last"] = "sum"
    """How an episode's reward is made: the sum of the rewards of its calls, or the last of them."""


class AppEpisode(Environment[AppConfig]):
    """Base class of all application formats: it holds the process, the rewards and the end of the episode."""

    submits = False
    checks_arguments = False
    runtimes: ClassVar[dict[str, ForeignRuntime]] = {}
    """The running applications, by the folder they were imported into."""

    def __init__(self, task: Task[Public, Secret], config: AppConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.session: ForeignSession
        self.rewards: list[float] = []
        self.steps = 0
        self.is_done = False
        self._broke: str | None = None
        self._problem: str | None = None

    @classmethod
    def program(cls, config: Any) -> ForeignProgram:
        """Return the program that runs the application; create its virtual environment if needed. Blocks."""
        raise NotImplementedError

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Create the application's virtual environment if there is none yet."""
        await to_thread.run_sync(cls._runtime, config)

    @classmethod
    def _runtime(cls, config: Any) -> ForeignRuntime:
        key = str(Path(config.data).absolute())
        if key not in cls.runtimes:
            cls.runtimes[key] = ForeignRuntime(cls.program(config))
        return cls.runtimes[key]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        """Hold a process of the application for this episode alone."""
        runtime = await to_thread.run_sync(self._runtime, self.config)
        async with runtime.session(is_alone=self.config.alone) as self.session:
            yield

    async def begin(self, do: str, **given: Any) -> dict[str, Any]:
        """Ask for the beginning of the episode.

        Raises:
            ConfigError: the application does not take what the task says, or is over before anybody acts.
            TaskError: the process is gone, hangs, or its code fails.
        """
        try:
            answer: dict[str, Any] = await self.session.ask(do, seconds=self.config.step_seconds, **given)
        except ForeignRefusal as refusal:
            raise ConfigError(f"{self.task.id}: {refusal}") from refusal
        if answer.get("done"):
            raise ConfigError(f"{self.task.id} is over before anybody acts")
        return answer

    async def act(self, do: str, **given: Any) -> dict[str, Any]:
        """Ask for what the agent does, and keep what it earned; at the end, or where the code fails, all is over.

        Raises:
            ToolError: that is no action, or nothing more can be done; in words for the agent.
            TaskError: the application is gone or hangs for everybody.
        """
        if self.is_done or self._broke is not None:
            raise ToolError("It is over.")
        try:
            seconds = self.config.step_seconds
            answer: dict[str, Any] = await self.session.act(do, seconds=seconds, what="an action", **given)
        except ForeignRefusal as refusal:
            raise ToolError(str(refusal)) from refusal
        except SandboxOverrun as error:  # as an action that its code fails at: what was earned before stands
            answer = {"broke": str(error)}
        self.steps += 1
        self._broke = answer.get("broke")
        self._earn(answer.get("reward"))
        self.is_done = bool(answer.get("done"))
        if self.is_done or self._broke is not None:
            self.end_episode()
        return answer

    def _earn(self, reward: Any) -> None:
        if reward is None:
            return
        if not isinstance(reward, bool | int | float) or not math.isfinite(reward):
            self._problem = f"the application gave the reward {str(reward)[:100]!r}, which is no number"
            return
        self.rewards.append(float(reward))

    def verify(self, submission: Submission) -> Score:
        """Score the episode by the rewards that the application gave; 0 if the agent left before any reward.

        Raises:
            ValueError: the episode ended without a reward, or with one that is not a number.
        """
        if self._problem is not None:
            raise ValueError(self._problem)
        if not self.rewards and self.is_done:
            raise ValueError(f"it is over after {self.steps} steps, and none was answered with a reward")
        return Score(
            reward=(sum(self.rewards) if self.config.total == "sum" else (self.rewards or [0.0])[-1]),
            suspect=None if self._broke is None else f"its code failed at a call: {self._broke}"[:500],
            metrics={"steps": float(self.steps), "over": float(self.is_done), "rewarded": float(len(self.rewards))},
            feedback=f"over after {self.steps} steps" if self.is_done else f"left after {self.steps} steps",
        )


def check_tool_names(names: Iterable[str]) -> None:
    """Refuse tools that have the name of one of the hub's own tools.

    Raises:
        ConfigError: names these tools.
    """
    if taken := sorted(HUB_TOOLS.intersection(names)):
        raise ConfigError(f"its tool {taken[0]!r} is called as one of the hub's own")
