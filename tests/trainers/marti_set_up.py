"""MARTI's own generator of samples, fed with records of the hub's."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from rollouthub import Rollout
from rollouthub.trainers import marti
from tests.trainers.absent import Absent, absent
from tests.trainers.test_marti import agent


@contextmanager
def marti_generator(system: Callable[[str], ModuleType]) -> Generator[Callable[..., list[tuple[int, float]]]]:
    """Makes samples of a rollout whose seats have the given roles: (agent, reward) of each."""
    for module in ("ray", "torch", "transformers"):
        system(module)
    with absent("deepspeed", "flash_attn", "json5", "latex2sympy2", "peft", "srsly", "vllm", "wandb"):
        sys.modules["marti.agent_workflows.tools.mcp_manager"] = Absent("marti.agent_workflows.tools.mcp_manager")
        generator: Any = import_module("marti.trainer.ppo_utils.multi_agent_samples_generator")

        def made(rollout: Rollout, *roles: str) -> list[tuple[int, float]]:
            agents = [agent(role, number) for number, role in enumerate(roles)]
            result = marti.result_of(rollout, "p", "l", agents)
            samples = generator.MultiAgentSamplesGenerator.prepare_samples(SimpleNamespace(), [result])
            return [(int(each.info["agent_id"][0]), each.rewards[0].item()) for each in samples]

        yield made
