"""A stage for external programs: a run's gateway, one environment, and an agent made of settings."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub import BadRow, Limits, Rollout, Sampling
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.gateway.gateway import Gateway, open_gateway
from rollouthub.generation import Model
from rollouthub.hosting import InProcessHost
from rollouthub.limits import Deadlines
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.plugins.agents import check_config
from rollouthub.protocols import EnvironmentHost, ExposedAgent
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub_agents.external import External, ExternalConfig
from rollouthub_servers.arithmetic import Arithmetic, ArithmeticConfig

ROOT = Path(__file__).parents[2]
OWN_AGENT = ROOT / "examples" / "own_agent" / "agent.py"


def arithmetic() -> EnvironmentHost:
    """Sums."""
    return InProcessHost("arithmetic", Arithmetic, ArithmeticConfig())


def solver() -> Model:
    """A model that knows sums."""
    return MockModel(ModelConfig(name="mock/solver"))


def external(**settings: Any) -> External:
    """An agent as `--agent-set` makes it."""
    return External(check_config(ExternalConfig, settings, "agent 'external'", "--agent-set"))


@dataclass
class Stage:
    """A gateway, and an agent that is ready."""

    gateway: Gateway
    agent: Any
    host: EnvironmentHost = field(default_factory=arithmetic)
    model: Model | None = field(default_factory=solver)

    async def play(
        self, *, limits: Limits | None = None, deadlines: Deadlines | None = None, seconds: float = 30
    ) -> Rollout:
        """Play the first task; its record."""
        card = await anext(aiter(self.host.tasks(self.host.info.splits[0], 0)))
        assert not isinstance(card, BadRow)
        info = self.host.info
        context = SampleContext(
            run_id="run",
            host=self.host,
            environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
            agent=self.agent,
            agent_ref=AgentRef(name=self.agent.name, version=self.agent.version),
            model=self.model,
            sampling=Sampling(),
            limits=limits or Limits(),
            deadlines=deadlines or Deadlines(),
            gateway=self.gateway,
        )
        task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
        with anyio.fail_after(seconds):
            return await Attempt(Sample(context, card, task, "group", "group-0", 0, 1, None), 0, 0.0, _unseen).play()


def _unseen(attempt: Attempt) -> None:
    return


@asynccontextmanager
async def stage(agent: External) -> AsyncGenerator[Stage]:
    """Have a gateway, and the agent made ready."""
    async with agent.held() as held, open_gateway() as gateway:
        assert isinstance(held, ExposedAgent)
        yield Stage(gateway, held)
