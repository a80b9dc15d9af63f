"""One process of two that train by TRL, as `torchrun` starts them: each plays its own part of the prompts.

torchrun --nproc-per-node 2 drive_trl_ranks.py FOLDER
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.models.credentials import Credentials
from rollouthub.trainers.stream import blocking_worker, rank_directory, rollout_worker
from rollouthub.trainers.trl import hub_reward, prompts_of, rollout_func
from tests.trainers.tiny import tiny_model

GAME = Path(__file__).parent / "trl_game.py"


def main(folder: Path) -> None:
    """Take two steps of two tasks, with a group of two samples on each process."""
    trl: Any = import_module("trl")
    transformers: Any = import_module("transformers")
    directory = rank_directory(folder / "run")
    place = tiny_model(folder / f"policy-{directory.name}")
    opening = rollout_worker(
        environments=(str(GAME),), model="mock/say?text=done", directory=directory, credentials=Credentials({})
    )
    with blocking_worker(opening) as worker:
        trl.GRPOTrainer(
            model=transformers.AutoModelForCausalLM.from_pretrained(place),
            reward_funcs=hub_reward,
            args=trl.GRPOConfig(
                output_dir=str(folder / "trl"),
                per_device_train_batch_size=2,
                num_generations=2,
                max_steps=2,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
            ),
            train_dataset=prompts_of(worker).select(range(2)),
            rollout_func=rollout_func(worker, moves_weights=True),
            processing_class=transformers.AutoTokenizer.from_pretrained(place),
        ).train()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
