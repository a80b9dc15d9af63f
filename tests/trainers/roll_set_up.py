"""ROLL's manager of proxied episodes as the hub has it, fed with recorded turns in place of its proxy's."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.trainers.roll.runner import result_of
from tests.trainers.absent import Absent, absent

System = Callable[[str], ModuleType]


def step_of(turn: Any) -> dict[str, Any]:
    """A turn as ROLL's tracker keeps a step."""
    prompt, output = list(turn.prompt_token_ids), list(turn.output_token_ids)
    return {
        "token_ids": [*prompt, *output],
        "response_masks": [0] * len(prompt) + [1] * len(output),
        "logprobs": [0.0] * len(prompt) + list(turn.output_logprobs),
        "messages": [],
    }


@dataclass
class Tracker:
    """The one method of ROLL's tracker that its manager asks for rows."""

    steps: list[dict[str, Any]]

    def get_trajectory_data(self, mode: str) -> list[dict[str, Any]]:
        assert mode == "step"
        return self.steps


class RollClasses:
    """ROLL's modules, and batches that its manager makes."""

    def __init__(self) -> None:
        self.manager: Any = import_module("rollouthub.trainers.roll").HubEnvManager
        self.utils: Any = import_module("roll.pipeline.agentic.utils")
        self._base: Any = import_module("roll.pipeline.agentic.agent_runner.base")

    def formed(self, rollout: Rollout, *, number: int = 0, lost: int = 0) -> Any:
        """An episode's batch, as environment `number` of its group; ROLL has lost its last `lost` steps."""
        made: Any = object.__new__(self.manager)
        steps = [step_of(turn) for turn in rollout.policy_turns][: len(rollout.policy_turns) - lost]
        fields: dict[str, Any] = {
            "env_config": {"tag": "hub", "group_id": 0, "env_id": number},
            "episode_id": 0,
            "group_seed": 0,
            "reward_granularity": "binary",
            "trajectory_mode": "step",
            "message_tracker": Tracker(steps),
            "pipeline_config": SimpleNamespace(sequence_length=2048, exp_name="x"),
            "tokenizer": SimpleNamespace(pad_token_id=0),
            "history": [None] * len(steps),
            "tools": [],
            "logger": SimpleNamespace(info=print, warning=print),
            "log_stats": {
                name: list[float]() for name in ("step_rt", "pure_infer_time", "env_exec_time", "proxy_overhead")
            },
            "traj_start_time": 0.0,
        }
        for name, value in fields.items():
            setattr(made, name, value)
        return made.formulate_rollouts(self._base.EpisodeResult(**result_of(rollout, by_seat=True)).to_dict())


@contextmanager
def roll_classes(system: System, monkeypatch: pytest.MonkeyPatch) -> Generator[RollClasses]:
    """ROLL's agentic modules from its checkout, which is first on the path."""
    for module in ("ray", "torch", "transformers", "omegaconf"):
        system(module)
    for name in ("reasoning_gym", "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"):
        for part in (name.rpartition(".")[0], name):
            if part.rpartition(".")[2] in ("grpc", "trace_exporter", "reasoning_gym"):
                monkeypatch.setitem(sys.modules, part, Absent(part))
    protocol = Absent("sglang.srt.entrypoints.openai.protocol")
    vars(protocol)["ChatCompletionMessageParam"] = dict[str, Any]
    monkeypatch.setitem(sys.modules, protocol.__name__, protocol)
    monkeypatch.setattr(sys.modules["reasoning_gym"], "factory", SimpleNamespace(DATASETS={}), raising=False)
    with absent("sglang", "deepspeed", "vllm", "imageio", "megatron", "dacite", "mcore_adapter", "more_itertools"):
        try:
            made = RollClasses()
        except ImportError as error:
            pytest.skip(f"roll.pipeline.agentic cannot be imported ({error})")
        yield made
