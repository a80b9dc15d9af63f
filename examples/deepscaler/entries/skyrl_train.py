"""SkyRL's trainer with the hub's generator. `ROLLOUTHUB_TRAINING` names what is played; arguments are SkyRL's."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rollouthub.trainers.skyrl import HubGenerator, Shape

ray: Any = import_module("ray")
base: Any = import_module("skyrl.train.entrypoints.main_base")
configs: Any = import_module("skyrl.train.config")
utilities: Any = import_module("skyrl.train.utils.utils")


class HubExp(base.BasePPOExp):
    """SkyRL's experiment, whose trajectories the hub plays over SkyRL's engines."""

    def __init__(self, cfg: Any, play: str) -> None:
        self.play = play
        experiment: Any = super()
        experiment.__init__(cfg)

    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> Any:
        """The hub's generator in the shape that the trainer is configured for."""
        shape = Shape(
            step_wise=cfg.generator.step_wise_trajectories,
            mask_truncated=cfg.generator.apply_overlong_filtering,
            placeholder_id=tokenizer.eos_token_id,
        )
        return HubGenerator(inference_engine_client, tokenizer, self.play, shape=shape)


@ray.remote(num_cpus=1)
def train(cfg: Any, play: str) -> None:
    """The trainer, in a process that Ray places."""
    experiment: Any = HubExp(cfg, play)
    experiment.run()


def read_options(given: Sequence[str]) -> Any:
    """SkyRL's configuration, checked as SkyRL checks it."""
    cfg = configs.SkyRLTrainConfig.from_cli_overrides(list(given))
    utilities.validate_cfg(cfg)
    return cfg


def main() -> None:
    """Train."""
    cfg, play = read_options(sys.argv[1:]), os.environ["ROLLOUTHUB_TRAINING"]
    utilities.initialize_ray(cfg)
    ray.get(train.remote(cfg, play))


if __name__ == "__main__":
    main()
