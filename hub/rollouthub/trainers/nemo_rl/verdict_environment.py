"""NeMo-RL's environment interface: scores the answers that NeMo-RL generates itself, one answer for each task."""

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
    """The task that a sample's `extra_env_info` names, in the hub's column or in the reference-answer field.

    Raises:
        ConfigError: neither field names a task.
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
        VerifierError: an answer is unscored. This interface has neither a mask nor a value for that, so training stops.
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
    """Create `HubEnvironment` as a subclass of NeMo-RL's environment interface."""
    interfaces: Any = system_module("nemo_rl.environments.interfaces")
    torch: Any = import_module("torch")

    class HubEnvironment(interfaces.EnvironmentInterface):
        """Scores answers with the hub's verifiers. Configuration: `env.NAME: {environments: [arithmetic], set:
        {…}}`; without it, `$ROLLOUTHUB_SCORER` names the environments.
        """

        def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
            settings = {key: value for key, value in dict(cfg or {}).items() if key not in ("env_name", "num_workers")}
            self._scorer = scorer_for(*settings.pop("environments", ()), **settings)

        def step(self, message_log_batch: Any, metadata: Any) -> Any:
            """Score each conversation; every episode ends with this step."""
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
            """Return the batch unchanged, and the mean reward as a metric."""
            rewards = batch["total_reward"] if "total_reward" in batch else batch["rewards"]
            return batch, {"rollouthub/reward_mean": rewards.float().mean().item()}

    return HubEnvironment


@cache
def environment_actor() -> Any:
    """`HubEnvironment` as a Ray actor class."""
    return import_module("ray").remote(environment_class())


def register_environment(name: str) -> None:
    """Register the actor with NeMo-RL under `name`, to be started in the current Python interpreter."""
    registry = system_module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY
    registry[FQN] = import_module("nemo_rl.distributed.virtual_cluster").PY_EXECUTABLES.SYSTEM
    import_module("nemo_rl.environments.utils").register_env(name, FQN)
