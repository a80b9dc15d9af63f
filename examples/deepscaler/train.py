"""DeepScaleR's recipe against any vLLM URL: 8K, 16K and 24K tokens, one policy, validated on AIME 2024.

python examples/deepscaler/train.py --dry-run

torchrun --nproc-per-node 4 examples/deepscaler/train.py -m hosted_vllm/policy --base-url http://HOST:8000/v1

Every step plays 128 problems eight times, learns from them, and puts the checkpoint where it generates. A run that was
interrupted goes on where it was when the same command is given again.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import stdev
from typing import Any

import anyio
import anyio.to_thread
from recipe import HERE, Recipe, Stage
from trainer import LearnerTrainer, Trainer, make_trainer

import rollouthub
from rollouthub import RolloutGroup
from rollouthub.errors import HubError, UsageError
from rollouthub.export import TrainingRow, batch_rows
from rollouthub.models.credentials import load_credentials
from rollouthub.plugins.extras import missing_module
from rollouthub.statistics import summarise_groups
from rollouthub.store import open_run
from rollouthub.trainers.stream import VllmControl

KEY = "HOSTED_VLLM_API_KEY"
"""The variable with the servers' key, as for a run."""


@dataclass(frozen=True)
class State:
    """The progress of the training, stored after every step."""

    stage: int = 0
    step: int = 0
    """Number of finished steps in the stage."""
    version: int = 0
    """Version of the weights: the number of finished steps in all stages."""
    checkpoint: str | None = None
    reference: str | None = None
    """The checkpoint that the stage began with; None is the recipe's initial policy."""

    @classmethod
    def read(cls, path: Path) -> "State":
        """The stored state; if there is none, that of the beginning."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Store the state atomically, so that a crash leaves this one or the one before."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)


class Run:
    """A training run of the recipe."""

    def __init__(self, recipe: Recipe, trainer: Trainer, options: argparse.Namespace) -> None:
        self.recipe, self.trainer, self.options = recipe, trainer, options
        self.folder = Path(options.directory).absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.state = State.read(self.folder / "state.json")
        except OSError as error:
            raise UsageError(
                f"{options.directory} cannot be written: {error.strerror}; name another with -o"
            ) from error
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{options.directory} holds no training of this recipe: its state.json cannot be read ({error}); "
                "name another with -o"
            ) from error
        key = options.api_key or load_credentials(os.environ, Path.cwd()).key(KEY)
        self.control = VllmControl(options.base_url, api_key=key) if options.base_url else None

    async def play(self) -> None:
        """Play all stages that are left."""
        for number in range(self.state.stage, len(self.recipe.stages)):
            await self._play(self.recipe.stages[number])
            self._keep(stage=number + 1, step=0, reference=self.state.checkpoint)
        _say(f"done: version {self.state.version}, {self.state.checkpoint}")

    async def _play(self, stage: Stage) -> None:
        checkpoint = None if self.state.checkpoint is None else Path(self.state.checkpoint)
        reference = None if self.state.reference is None else Path(self.state.reference)
        await anyio.to_thread.run_sync(self.trainer.begin, stage, checkpoint, reference)
        if checkpoint is not None:
            await self._load(checkpoint)
            if self.control is not None:  # servers that outlived the last run have its version and prefixes
                await self.control.updated(self.state.version)
        folder, rollouts = self.folder / f"stage-{stage.name}", self.recipe.rollouts
        async with rollouthub.stream_rollouts(
            **self._request(stage.environment, rollouts.samples, stage, self.options.data, self.options.split),
            batch=rollouts.prompts,
            max_staleness=rollouts.max_staleness,
            epochs=None,
            directory=folder,
            resume=(folder / "run.db").exists(),
            policy_version=self.state.version,
            control=self.control,
            groups=True,
        ) as supply:
            await self._validate_if_due(stage)
            while self.state.step < stage.steps:
                groups = await supply.batch()
                figures = await anyio.to_thread.run_sync(self.trainer.learn, self._rows(groups))
                reward = sum(sum(group.rewards) for group in groups) / sum(len(group.rewards) for group in groups)
                target = self.folder / "checkpoints" / f"version-{self.state.version + 1:06d}"
                await anyio.to_thread.run_sync(self.trainer.save, target)
                version = await supply.publish_weights(self.state.version + 1, lambda at=target: self._load(at))
                self._turn_over(target)
                self._keep(step=self.state.step + 1, version=version, checkpoint=str(target))
                shown = " ".join(f"{name}={value:g}" for name, value in figures.items())
                _say(f"{stage.name} step {self.state.step}/{stage.steps}: mean reward {reward:.3f} {shown}")
                if self.state.step < stage.steps:
                    await self._validate_if_due(stage)
        await self._validate_if_due(stage)  # with nothing else at the servers

    def _rows(self, groups: Sequence[RolloutGroup]) -> list[tuple[TrainingRow, float]]:
        """The training rows of complete groups, with the recipe's advantages; refused groups are reported."""
        made = batch_rows(groups)
        if made.counts:
            _say("refused: " + ", ".join(f"{count} {name.value}" for name, count in made.counts.items()))
        advantages = {
            rollout.rollout_id: advantage
            for group in groups
            for rollout, advantage in zip(group.rollouts, self.recipe.advantages.of(group.rewards), strict=True)
        }
        return [(row, advantages[row.rollout.rollout_id]) for row, _ in made.rows]

    async def _load(self, checkpoint: Path) -> None:
        if self.control is not None:
            await self.control.reload_weights(str(checkpoint))

    def _turn_over(self, latest: Path) -> None:
        """Delete checkpoints but the one in use, the one before, the stage's first, and those that were validated."""
        kept = {self.state.checkpoint, self.state.reference, str(latest)}
        measured = {figures["checkpoint"] for figures in self._measured()} | kept
        for folder in latest.parent.iterdir():
            if str(folder) not in measured:
                shutil.rmtree(folder)

    def _measured(self) -> list[dict[str, Any]]:
        path = self.folder / "validation.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def _validate_if_due(self, stage: Stage) -> None:
        """Validate before the first step, after every so many and after the last one; once, even if interrupted."""
        step = self.state.step
        is_due = self.state.version == 0 or (step and (step % self.recipe.validation.every == 0 or step == stage.steps))
        if is_due and all(figures["version"] != self.state.version for figures in self._measured()):
            await self._validate(stage)

    async def _validate(self, stage: Stage) -> None:
        """Play the validation set, and record avg@k with its standard error."""
        validation, state = self.recipe.validation, self.state
        folder = self.folder / "validation" / f"version-{state.version:06d}"
        options = self.options
        asked = self._request(
            validation.environment, validation.samples, stage, options.validation_data, options.validation_split
        )
        async with rollouthub.stream_rollouts(
            **{**asked, "limit": options.validation_limit},
            max_staleness=None,
            min_group=1,
            directory=folder,
            resume=(folder / "run.db").exists(),
            policy_version=state.version,
            groups=True,
        ) as supply:
            async for _ in supply:
                pass
        with open_run(folder) as run:
            counts = list(run.group_counts())
        overall = summarise_groups(counts, ks=[validation.samples]).overall
        (at,) = overall.at_k
        means = [each.reward_sum / each.scored for each in counts if each.scored]
        figures: dict[str, Any] = {
            "version": state.version,
            "stage": stage.name,
            "k": at.k,
            "avg": sum(means) / len(means) if means else None,
            "standard_error": stdev(means) / len(means) ** 0.5 if len(means) > 1 else None,
            "pass": None if at.pass_at_k is None else at.pass_at_k.value,
            "tasks": len(means),
            "broken": {each.task_id: each.scored for each in counts if each.scored < validation.samples},
            "checkpoint": state.checkpoint,
        }
        with (self.folder / "validation.jsonl").open("a") as file:
            file.write(json.dumps(figures) + "\n")
        _say(
            f"{validation.environment} at version {state.version}: avg@{at.k} {_shown(figures['avg'])} ± "
            f"{_shown(figures['standard_error'])} (standard error), pass@{at.k} {_shown(figures['pass'])}, "
            f"{figures['tasks']} problems"
        )
        if figures["broken"]:
            listed = ", ".join(f"{task} ({scored} of {at.k})" for task, scored in figures["broken"].items())
            _say(f"problems with samples that broke, which count with what was scored: {listed}")

    def _request(
        self, environment: str, samples: int, stage: Stage, data: str | None, split: str | None
    ) -> Mapping[str, Any]:
        """The settings of a run."""
        options, rollouts = self.options, self.recipe.rollouts
        settings: dict[str, Any] = {
            "response_tokens": stage.max_sequence_tokens,
            "opens_thought": self.recipe.opens_thought,
        }
        return {
            "environments": (environment,),
            "agent": "single_turn",
            "model": options.model,
            "base_url": tuple(options.base_url),
            "repeats": samples,
            "seed": options.seed,
            "split": split,
            "sampling": {"temperature": rollouts.temperature, "top_p": rollouts.top_p},
            "concurrency": options.concurrency,
            "set": settings if data is None else {**settings, "data": data},
        }

    def _keep(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self.state.write(self.folder / "state.json")


def plan(recipe: Recipe) -> str:
    """What the recipe would do, in words."""
    each, validation = recipe.rollouts, recipe.validation
    lines = [
        f"policy {recipe.policy}",
        f"{each.prompts} problems x {each.samples} samples a step, staleness at most {each.max_staleness}; "
        f"{recipe.advantages.baseline} baseline, optimizer steps of {recipe.training.global_batch} rows",
    ]
    lines += [
        f"{stage.name}: {stage.environment}, {stage.steps} steps of {each.prompts * each.samples} rollouts, "
        f"at most {stage.max_sequence_tokens} tokens; learning rate {stage.learning_rate:g}, KL {stage.kl:g}, "
        f"clip {recipe.training.ratio_clip_min:g} to {stage.ratio_clip_max:g}"
        for stage in recipe.stages
    ]
    lines.append(f"{validation.environment} x {validation.samples} every {validation.every} steps and after each stage")
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _count(text: str) -> int:
    """A number of an option, from 1 on."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) < 10**8:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 on")
    return int(text)


def read_options(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.toml")
    parser.add_argument("-m", "--model", default="mock/solver?accuracy=0.4", help="as `hub run -m`")
    parser.add_argument("--base-url", action="append", default=[], help="of vLLM, VLLM_SERVER_DEV_MODE=1; repeatable")
    parser.add_argument("--api-key", help=f"of the servers, where they ask for one; by default {KEY}")
    parser.add_argument("--policy", help="in place of the recipe's: what the learner starts from")
    parser.add_argument("--trainer", help="module:Class, made with the recipe, in place of the hub's learner")
    parser.add_argument("--rehearse", action="store_true", help="learn nothing: only count steps")
    parser.add_argument("--stage", help="end after this stage, such as 8K; by default after the last")
    parser.add_argument("-o", "--directory", default="runs/deepscaler")
    parser.add_argument("--data", help="training problems: a file, a folder or hf:NAME in place of DeepScaleR's")
    parser.add_argument("--split", help="of the training problems")
    parser.add_argument("--validation-data")
    parser.add_argument("--validation-split")
    parser.add_argument("--validation-limit", type=_count)
    parser.add_argument("--steps", type=_count, help="of each stage, in place of the recipe's")
    parser.add_argument("--prompts", type=_count)
    parser.add_argument("--samples", type=_count)
    parser.add_argument("--validation-samples", type=_count)
    parser.add_argument("-c", "--concurrency", type=_count, default=1024)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    return parser.parse_args(given)


def adapted(recipe: Recipe, options: argparse.Namespace) -> Recipe:
    """The recipe scaled to the sizes in the options, up to the stage that they name.

    Raises:
        UsageError: there is no such stage, or a size is none.
    """

    def other(**changes: object) -> dict[str, object]:
        return {name: value for name, value in changes.items() if value is not None}

    names = [stage.name for stage in recipe.stages]
    if options.stage is not None and options.stage not in names:
        raise UsageError(f"there is no stage {options.stage!r}; the recipe has {', '.join(names)}")
    count = len(names) if options.stage is None else names.index(options.stage) + 1
    changed = recipe.model_copy(
        update={
            **other(policy=options.policy),
            "rollouts": recipe.rollouts.model_copy(update=other(prompts=options.prompts, samples=options.samples)),
            "validation": recipe.validation.model_copy(update=other(samples=options.validation_samples)),
            "stages": tuple(stage.model_copy(update=other(steps=options.steps)) for stage in recipe.stages[:count]),
        }
    )
    return Recipe.checked(changed.model_dump(), "the recipe with these options")


def main() -> None:
    """Train by the recipe, or print the plan; what is wrong with the options is said in a line."""
    options = read_options()
    try:
        run(options)
    except (ModuleNotFoundError, UsageError) as error:
        said = missing_module(error) if isinstance(error, ModuleNotFoundError) else str(error)
        sys.stderr.write(f"train.py: error: {said}\n")
        sys.exit(2)
    except HubError as error:
        sys.stderr.write(f"train.py: {error}\n")
        sys.exit(1)


def run(options: argparse.Namespace) -> None:
    """Train by the recipe, or print the plan.

    Raises:
        UsageError: an option is wrong.
        ModuleNotFoundError: the learner's packages are not installed.
    """
    recipe = adapted(Recipe.read(options.recipe), options)
    if options.dry_run:
        _say(plan(recipe))
        return
    trainer = make_trainer(options.trainer, recipe, is_rehearsal=options.rehearse)
    if isinstance(trainer, LearnerTrainer) and not trainer.ranks.is_leader:
        trainer.follow()
        return
    anyio.run(Run(recipe, trainer, options).play)
    trainer.close()  # if it fails, torchrun ends the other ranks


if __name__ == "__main__":
    main()
