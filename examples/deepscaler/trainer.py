"""The interface of trainers, the learner of the hub behind it, and one that only counts."""

import gc
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from recipe import Recipe, Stage

from rollouthub.errors import ConfigError
from rollouthub.export import TrainingRow
from rollouthub.trainers.learn import LearnSettings


class Trainer(Protocol):
    """Learns from rows. Created with the recipe; NeMo-RL, veRL, TRL or plain torch can implement it."""

    def begin(self, stage: Stage, checkpoint: Path | None, reference: Path | None) -> None:
        """Begin or go on with a stage, with its learning rate, clipping and KL, from a checkpoint; None means the
        recipe's initial policy. `reference` is the checkpoint at the stage's start, from which KL is measured.
        """
        ...

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """One training step on rows with their advantages; returns its metrics."""
        ...

    def save(self, folder: Path) -> None:
        """Write the policy in Hugging Face format, which model servers can read, and what going on needs."""
        ...

    def close(self) -> None:
        """The training is over."""
        ...


class LearnerTrainer:
    """`rollouthub.trainers.learn` with the recipe's settings; under `torchrun`, sharded over its ranks."""

    def __init__(self, recipe: Recipe) -> None:
        from rollouthub.trainers.learn import Ranks

        self.recipe, self.ranks = recipe, Ranks()
        self._learner: Any = None
        self._stage = ""

    def follow(self) -> None:
        """As a rank that is not the first: make its calls until the training is over."""
        self.ranks.follow(lambda method: getattr(self, method))

    def begin(self, stage: Stage, checkpoint: Path | None, reference: Path | None) -> None:
        """Open the policy anew for a stage, from the stage's start or where it was interrupted."""
        from rollouthub.trainers.learn import Learner, open_policy

        self.ranks.lead("begin", stage, checkpoint, reference)
        self._learner = None
        gc.collect()  # the stage before, whose parts hold each other, must not share memory with this one
        kind = self.recipe.training.dtype
        start = str(reference or self.recipe.policy)
        model, tokenizer = open_policy(start, ranks=self.ranks, dtype=kind)
        fixed: Any = None
        if stage.kl:
            fixed = open_policy(start, ranks=self.ranks, dtype=kind, checkpointing=False)[0].requires_grad_(False)
        settings = learn_settings(self.recipe, stage)
        self._learner = Learner(model, settings, tokenizer=tokenizer, ranks=self.ranks, reference=fixed)
        if self.ranks.is_leader and checkpoint is not None and checkpoint != reference:
            self._learner.restore(checkpoint)

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """One step on all rows, in optimizer steps of `global_batch`."""
        return self._learner.learn(rows)

    def learn_from(self, rows: Sequence[Any]) -> None:
        """A follower's part of `learn`."""
        self._learner.learn_from(rows)

    def save(self, folder: Path) -> None:
        """Write the weights, the optimizer's state, the counts and the random state."""
        self._learner.save(folder)

    def restore(self, folder: Path) -> None:
        """A follower's part of going on from a checkpoint."""
        self._learner.restore(folder)

    def close(self) -> None:
        """Release the other ranks."""
        self.ranks.end()


def learn_settings(recipe: Recipe, stage: Stage) -> LearnSettings:
    """The learner's settings of a stage."""
    training = recipe.training
    return LearnSettings(
        advantages="leave_one_out",
        clip_low=training.ratio_clip_min,
        clip_high=stage.ratio_clip_max,
        normalize="tokens" if training.token_level_loss else "sequences",
        kl=stage.kl,
        kl_form=training.kl_form,
        temperature=recipe.rollouts.temperature,
        learning_rate=stage.learning_rate,
        warmup_steps=training.warmup_steps * recipe.updates,  # the learner counts optimizer steps
        warmup_from=training.warmup_from,
        weight_decay=training.weight_decay,
        betas=training.betas,
        max_grad_norm=training.max_grad_norm,
        update_rows=training.global_batch,
        micro_batch_tokens=training.micro_batch * stage.max_sequence_tokens,
        max_tokens=stage.max_sequence_tokens,
    )


class CountingTrainer:
    """Counts the rows it is given: for testing everything but the learning."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tokens = self.steps = 0

    def begin(self, stage: Stage, checkpoint: Path | None, reference: Path | None) -> None:
        """Continue counting from the checkpoint."""
        if checkpoint is not None:
            counted = json.loads((checkpoint / "counted.json").read_text())
            self.tokens, self.steps = counted["tokens"], counted["steps"]

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """Count the rows and their tokens."""
        sampled = sum(sum(row.segment.loss_mask) for row, _ in rows)
        self.tokens, self.steps = self.tokens + sampled, self.steps + 1
        return {"rows": len(rows), "tokens": sampled, "learning": sum(advantage != 0 for _, advantage in rows)}

    def save(self, folder: Path) -> None:
        """Write the counts."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counted.json").write_text(json.dumps({"tokens": self.tokens, "steps": self.steps}))

    def close(self) -> None:
        """Nothing is held."""


def make_trainer(name: str | None, recipe: Recipe, *, is_rehearsal: bool) -> Trainer:
    """The trainer: the class `module:Class`, without a name the learner, and in a rehearsal the one that counts.

    Raises:
        ConfigError: the class cannot be imported.
        ModuleNotFoundError: the learner's packages are not installed.
    """
    if is_rehearsal:
        return CountingTrainer(recipe)
    if name is None:
        return LearnerTrainer(recipe)
    module, _, attribute = name.partition(":")
    sys.path.append(str(Path.cwd()))  # where the command is given, not only beside this script
    try:
        kind = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"--trainer {name!r} is no MODULE:CLASS that can be imported: {error}") from error
    return kind(recipe)
