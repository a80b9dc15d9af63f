"""SkyRL's trainer with the hub's generator. `ROLLOUTHUB_TRAINING` names what is played; arguments are SkyRL's."""

import os
import sys
from typing import Any

import ray
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from rollouthub.trainers.skyrl import HubGenerator, Shape


class HubExp(BasePPOExp):
    """SkyRL's experiment, whose trajectories the hub plays over SkyRL's engines."""

    def __init__(self, cfg: Any, play: str) -> None:
        self.play = play
        super().__init__(cfg)

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
    HubExp(cfg, play).run()


def main() -> None:
    """Check the configuration as SkyRL does, and train."""
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    play = os.environ["ROLLOUTHUB_TRAINING"]
    initialize_ray(cfg)
    ray.get(train.remote(cfg, play))


if __name__ == "__main__":
    main()
