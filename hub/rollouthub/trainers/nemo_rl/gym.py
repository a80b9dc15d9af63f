"""NeMo-RL's NeMo Gym actor, with the hub in the place of NeMo Gym's servers."""

import time
from collections.abc import AsyncGenerator
from functools import cache
from importlib import import_module
from typing import Any, cast

from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError
from rollouthub.trainers.nemo_rl.row_player import Rows
from rollouthub.trainers.stream.open_worker import rollout_worker
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_thread import ResidentWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings, settings_of

_MODULE = "nemo_rl.environments.nemo_gym"
KEY = "rollouthub"
"""In `env.nemo_gym`: the settings of a run, and a table `training`; without it `$ROLLOUTHUB_TRAINING` names a file."""


class Running:
    """What NeMo-RL's actor holds while it runs: it asks how it is, and ends it."""

    def __init__(self, settings: TrainingSettings, model: str, base_urls: list[str]) -> None:
        """Open the worker; the trainer's own generation servers play.

        Raises:
            UsageError: as `rollout_worker`.
        """
        self.replays = settings.training.replays
        given = settings.request.model_dump(exclude_unset=True)
        given = {"model": f"hosted_vllm/{model}", "base_url": tuple(base_urls), **given}
        request = build_request(given, f"env.nemo_gym.{KEY}")
        self.worker = ResidentWorker(
            rollout_worker(request, directory=settings.run_directory("nemo-rl"), suspect=settings.training.suspect)
        )

    def poll(self) -> None:
        """Nothing of it dies unnoticed: it is in this process."""

    def shutdown(self) -> None:
        """End it."""
        self.worker.close()


@cache
def gym_class() -> Any:
    """NeMo-RL's class, with rollouts of the hub; what it makes of a result is its own code."""
    base: Any = system_module(_MODULE).NemoGym.__ray_metadata__.modified_class.__ray_actor_class__

    class HubGym(base):
        """Plays rows whose `rollouthub` column names a task."""

        def _spinup(self) -> None:
            config: dict[str, Any] = self.cfg.get("initial_global_config_dict") or {}
            given = config.get(KEY)
            settings = read_settings() if given is None else settings_of(dict(given), f"env.nemo_gym.{KEY}")
            self.rh = Running(settings, self.cfg["model_name"], list(self.cfg["base_urls"]))

        async def run_rollouts(
            self, nemo_gym_examples: list[dict[str, Any]], timer_prefix: str, deduplicate_multimodal_data: bool = False
        ) -> AsyncGenerator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
            """Results as NeMo-RL learns from them, as they come, with the place of their row."""
            self._require_spinup()
            if not nemo_gym_examples:
                raise ConfigError("NeMo-RL asks for the rollouts of no rows")
            if self._tokenizer is None:
                raise ConfigError("NeMo-RL has set no tokenizer")
            began, rows = time.perf_counter(), Rows(nemo_gym_examples, self.rh.worker.begin, self.rh.replays)
            left = len(nemo_gym_examples)
            async for place, result in rows.results():
                row = nemo_gym_examples[place]
                learnt = self._postprocess_nemo_gym_to_nemo_rl_result(
                    row, result, self._tokenizer, include_initial_multimodal_data=not deduplicate_multimodal_data
                )
                left -= 1
                metrics: dict[str, Any] | None = None
                if not left:
                    metrics = {f"{timer_prefix}/run_rollouts_s": time.perf_counter() - began}
                    metrics |= {f"rollouthub/{name}": count for name, count in rows.counts.items()}
                yield row["_rowidx"], learnt, metrics

    return HubGym


@cache
def gym_actor() -> Any:
    """The class as a Ray actor."""
    ray: Any = import_module("ray")
    return ray.remote(max_restarts=-1, max_task_retries=-1)(gym_class())


def use_hub_gym() -> None:
    """Put the actor where NeMo-RL takes its own from."""
    registry = system_module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY
    system = import_module("nemo_rl.distributed.virtual_cluster").PY_EXECUTABLES.SYSTEM
    registry[f"{_MODULE}.NemoGym"] = system  # the trainer's own interpreter, which has the hub; no server is started
    actor, module = gym_actor(), cast(Any, import_module(_MODULE))
    module.NemoGym = actor
