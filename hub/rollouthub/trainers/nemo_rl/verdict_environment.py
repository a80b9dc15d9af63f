"""NeMo-RL's environment interface: verdicts on what its own loop generated, one answer a task."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError, VerifierError
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import COLUMN
from rollouthub.trainers.blocking_scorer import BlockingScorer, scorer_for
from rollouthub.trainers.systems import system_module

FQN = "rollouthub.trainers.nemo_rl.HubEnvironment"


def task_of(metadata: Mapping[str, Any] | None) -> TaskReference:
    """The task that a sample's `extra_env_info` names: ours, or where NeMo-RL's processors put a reference answer.

    Raises:
        ConfigError: it names none.
    """
    for name in (COLUMN, "ground_truth"):
        if metadata and isinstance(metadata.get(name), str):
            return TaskReference.parse(metadata[name])
    raise ConfigError(
        f"a sample names no task: its extra_env_info has neither {COLUMN!r} nor 'ground_truth'; write the data set "
        "with rollouthub.trainers.nemo_rl.write_prompts"
    )


def judge(
    scorer: BlockingScorer, logs: Sequence[Sequence[Mapping[str, Any]]], metadata: Sequence[Mapping[str, Any] | None]
) -> list[float]:
    """The rewards of a batch of message logs.

    Raises:
        VerifierError: one is unscored. This interface has no word for that, and no mask: training stops rather than
            learns from a reward that nobody gave.
    """
    asked = [
        (task_of(each), [{"role": message["role"], "content": message["content"]} for message in log])
        for log, each in zip(logs, metadata, strict=True)
    ]
    verdicts = scorer.judge_all(asked)
    rewards = [verdict.reward for verdict in verdicts if verdict.reward is not None]
    if len(rewards) < len(verdicts):
        problem = next(verdict.problem for verdict in verdicts if verdict.score is None)
        raise VerifierError(f"{len(verdicts) - len(rewards)} of {len(verdicts)} answers are unscored: {problem}")
    return rewards


@cache
def environment_class() -> Any:
    """The class, over NeMo-RL's interface."""
    interfaces: Any = system_module("nemo_rl.environments.interfaces")
    torch: Any = import_module("torch")

    class HubEnvironment(interfaces.EnvironmentInterface):
        """`env.NAME: {environments: [arithmetic], set: {…}}`; without, `$ROLLOUTHUB_SCORER` names them."""

        def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
            settings = {key: value for key, value in dict(cfg or {}).items() if key not in ("env_name", "num_workers")}
            self._scorer = scorer_for(*settings.pop("environments", ()), **settings)

        def step(self, message_log_batch: Any, metadata: Any) -> Any:
            """Score what was said last; every episode ends there."""
            rewards = judge(self._scorer, message_log_batch, metadata)
            count = len(rewards)
            return interfaces.EnvironmentReturn(
                observations=[{"role": "environment", "content": ""} for _ in rewards],
                metadata=list(metadata),
                next_stop_strings=[None] * count,
                rewards=torch.tensor(rewards, dtype=torch.float32),
                terminateds=torch.ones(count, dtype=torch.bool),
                answers=None,
            )

        def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, Any]]:
            """Nothing is to be done; the mean reward of what was scored."""
            rewards = batch["total_reward"] if "total_reward" in batch else batch["rewards"]
            return batch, {"rollouthub/reward_mean": rewards.float().mean().item()}

    return HubEnvironment


@cache
def environment_actor() -> Any:
    """The class as a Ray actor."""
    return import_module("ray").remote(environment_class())


def register_environment(name: str) -> None:
    """Let NeMo-RL know the actor by this name, and start it in its own interpreter."""
    registry = system_module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY
    registry[FQN] = import_module("nemo_rl.distributed.virtual_cluster").PY_EXECUTABLES.SYSTEM
    import_module("nemo_rl.environments.utils").register_env(name, FQN)
