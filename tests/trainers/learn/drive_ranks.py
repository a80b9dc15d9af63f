"""One process of two of a sharded learner, as `torchrun` starts them: two steps, a checkpoint, and the third after it.

torchrun --nproc-per-node 2 drive_ranks.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.trainers.learn import Learner, LearnSettings, Ranks
from rollouthub.trainers.learn.model_loading import prepared
from rollouthub.trainers.learn.pytorch import torch
from tests.trainers.learn.tiny_learner import small_model, some_rows

SETTINGS = LearnSettings(learning_rate=1e-3, max_tokens=24, update_rows=5, kl=0.01, micro_batch_tokens=60)


def main(folder: Path) -> None:
    """Lead, or follow."""
    ranks = Ranks()
    reference: Any = prepared(small_model(), ranks).requires_grad_(False)
    learner = Learner(prepared(small_model(), ranks), SETTINGS, ranks=ranks, reference=reference)
    if not ranks.is_leader:
        learner.follow()
        ranks.end()
        return
    with learner.ended():
        figures = [learner.learn_from(some_rows(10, step)) for step in range(2)]
        learner.save(folder / "kept")
        learner.learn_from(some_rows(10, 7))  # undone by what follows
        learner.restore(folder / "kept")
        figures.append(learner.learn_from(some_rows(10, 2)))
        learner.begin_stage(LearnSettings(learning_rate=1e-3, max_tokens=24), keeps_moments=True)
        figures.append(learner.learn_from(some_rows(10, 3)))
        learner.save_weights(folder / "restored")
        refused = False
        try:
            learner.begin_stage(SETTINGS)
        except ConfigError:
            refused = True
        waits = torch.distributed.group.WORLD._get_backend(ranks.device).options._timeout
        figures.append({"waits_days": waits.days, "refused": refused})
    (folder / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
