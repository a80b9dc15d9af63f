"""An actor that replaces NeMo-RL's NeMo Gym actor and plays rollouts in the hub."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError
from rollouthub.store.media import read_media
from rollouthub.trainers.nemo_rl.row_player import Rows
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.workers.in_thread import ThreadWorker
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings, settings_of

_MODULE = "nemo_rl.environments.nemo_gym"
KEY = "rollouthub"
"""Key in `env.nemo_gym` for the settings of a run, with a table `training`. If absent, `$ROLLOUTHUB_TRAINING` names
a settings file.
"""


class Running:
    """The hub's worker inside NeMo-RL's actor, with the methods that NeMo-RL calls: `poll` and `shutdown`."""

    def __init__(self, settings: TrainingSettings, model: str, base_urls: list[str]) -> None:
        """Open the worker; its model is the trainer's own generation servers.

        Raises:
            UsageError: as `rollout_worker`.
        """
        self.replays, self.seat = settings.training.replays, settings.training.seat
        given = settings.request.model_dump(exclude_unset=True)
        given = {"model": f"hosted_vllm/{model}", "base_url": tuple(base_urls), **given}
        request = build_request(given, f"env.nemo_gym.{KEY}")
        self.worker = ThreadWorker(settings.model_copy(update={"request": request}).worker("nemo-rl", no_groups=None))

    def media(self, digest: str) -> bytes:
        """The bytes of a picture that a rollout showed, by digest."""
        return read_media(self.worker.directory / "media", digest)

    def rows(self, examples: Sequence[Mapping[str, Any]]) -> Rows:
        """The rows of one call, to be played."""
        worker = self.worker
        return Rows(examples, worker.begin, self.replays, self.media, self.seat, scores_groups=worker.scores_groups)

    def poll(self) -> None:
        """NeMo-RL's health check. It does nothing: the worker runs in this process, so it cannot fail unnoticed."""

    def shutdown(self) -> None:
        """Close the worker."""
        self.worker.close()


@cache
def gym_class() -> Any:
    """NeMo-RL's NeMo Gym class with the hub's rollouts; its own code post-processes the results."""
    base: Any = system_module(_MODULE).NemoGym.__ray_metadata__.modified_class.__ray_actor_class__

    class HubGym(base):
        """Plays data rows whose `rollouthub` column names a task."""

        def _spinup(self) -> None:
            config: dict[str, Any] = self.cfg.get("initial_global_config_dict") or {}
            given = config.get(KEY)
            settings = read_settings() if given is None else settings_of(dict(given), f"env.nemo_gym.{KEY}")
            self.rh = Running(settings, self.cfg["model_name"], list(self.cfg["base_urls"]))

        async def run_rollouts(
            self, nemo_gym_examples: list[dict[str, Any]], timer_prefix: str, deduplicate_multimodal_data: bool = False
        ) -> AsyncGenerator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
            """NeMo-RL's training samples, as rollouts finish: the row's index, the sample and, with the last one,
            metrics.
            """
            self._require_spinup()
            if not nemo_gym_examples:
                raise ConfigError("NeMo-RL asks for the rollouts of no rows")
            if self._tokenizer is None:
                raise ConfigError("NeMo-RL has set no tokenizer")
            began, rows = (
                time.perf_counter(),
                self.rh.rows(nemo_gym_examples),
            )
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
    """`HubGym` as a Ray actor class."""
    ray: Any = import_module("ray")
    return ray.remote(max_restarts=-1, max_task_retries=-1)(gym_class())


def use_hub_gym() -> None:
    """Replace NeMo-RL's NeMo Gym actor by the hub's."""
    registry = system_module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY
    system = import_module("nemo_rl.distributed.virtual_cluster").PY_EXECUTABLES.SYSTEM
    registry[f"{_MODULE}.NemoGym"] = system  # the trainer's own interpreter, which has the hub; no server is started
    actor, module = gym_actor(), cast(Any, import_module(_MODULE))
    module.NemoGym = actor
