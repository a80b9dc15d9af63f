"""What learns: the small interface of trainers, and one that only counts."""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from recipe import Recipe, Stage

from rollouthub.export import TrainingRow


class Trainer(Protocol):
    """Learns from rows. Made with the recipe; NeMo-RL, veRL, TRL or plain torch stand behind it."""

    def begin(self, stage: Stage, checkpoint: Path | None) -> None:
        """Take up a stage, with its learning rate, clip and KL, from a checkpoint; None is the recipe's policy."""
        ...

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """One step of the recipe on rows with their advantages; its figures."""
        ...

    def save(self, folder: Path) -> None:
        """Write the policy in Hugging Face's format, which the model's servers can read."""
        ...


class CountingTrainer:
    """Counts what it is given: a rehearsal of everything but the learning."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tokens = self.steps = 0

    def begin(self, stage: Stage, checkpoint: Path | None) -> None:
        """Go on counting where the checkpoint left off."""
        if checkpoint is not None:
            counted = json.loads((checkpoint / "counted.json").read_text())
            self.tokens, self.steps = counted["tokens"], counted["steps"]

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """Here a loss would be summed up over `segment.loss_mask`, in optimizer steps of `training.global_batch`."""
        sampled = sum(sum(row.segment.loss_mask) for row, _ in rows)
        self.tokens, self.steps = self.tokens + sampled, self.steps + 1
        return {"rows": len(rows), "tokens": sampled, "learning": sum(advantage != 0 for _, advantage in rows)}

    def save(self, folder: Path) -> None:
        """Write the counts."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counted.json").write_text(json.dumps({"tokens": self.tokens, "steps": self.steps}))


def make_trainer(name: str | None, recipe: Recipe) -> Trainer:
    """The trainer of `module:Class`, called with the recipe; none named is the one that counts."""
    if name is None:
        return CountingTrainer(recipe)
    module, _, attribute = name.partition(":")
    sys.path.append(str(Path.cwd()))  # where the command is given, not only beside this script
    return getattr(import_module(module), attribute)(recipe)
