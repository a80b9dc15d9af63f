"""The interface of trainers, and one that only counts."""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from recipe import Recipe, Stage

from rollouthub.export import TrainingRow


class Trainer(Protocol):
    """Learns from rows. Created with the recipe; NeMo-RL, veRL, TRL or plain torch can implement it."""

    def begin(self, stage: Stage, checkpoint: Path | None) -> None:
        """Begin a stage, with its learning rate, clipping and KL, from a checkpoint; None means the recipe's initial
        policy.
        """
        ...

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """One training step on rows with their advantages; returns its metrics."""
        ...

    def save(self, folder: Path) -> None:
        """Write the policy in Hugging Face format, which model servers can read."""
        ...


class CountingTrainer:
    """Counts the rows it is given: for testing everything but the learning."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tokens = self.steps = 0

    def begin(self, stage: Stage, checkpoint: Path | None) -> None:
        """Continue counting from the checkpoint."""
        if checkpoint is not None:
            counted = json.loads((checkpoint / "counted.json").read_text())
            self.tokens, self.steps = counted["tokens"], counted["steps"]

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """Here a real trainer sums a loss over `segment.loss_mask`, in optimizer steps of `training.global_batch`."""
        sampled = sum(sum(row.segment.loss_mask) for row, _ in rows)
        self.tokens, self.steps = self.tokens + sampled, self.steps + 1
        return {"rows": len(rows), "tokens": sampled, "learning": sum(advantage != 0 for _, advantage in rows)}

    def save(self, folder: Path) -> None:
        """Write the counts."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counted.json").write_text(json.dumps({"tokens": self.tokens, "steps": self.steps}))


def make_trainer(name: str | None, recipe: Recipe) -> Trainer:
    """The trainer class `module:Class`, created with the recipe; without a name, the counting one."""
    if name is None:
        return CountingTrainer(recipe)
    module, _, attribute = name.partition(":")
    sys.path.append(str(Path.cwd()))  # where the command is given, not only beside this script
    return getattr(import_module(module), attribute)(recipe)
