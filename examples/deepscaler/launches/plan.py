"""What a launch file is made of: the recipe, a stage of it, the machines, and where files lie."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipe import Recipe, Stage

GPUS_PER_NODE = 8
PROMPT_TOKENS = 2048
"""Room in a row for a problem with its instruction and the chat template."""
MICRO_BATCH_TOKENS = 32_768
"""Tokens of a micro-batch where a system packs rows; above one row of the last stage with its problem (26,624)."""


@dataclass(frozen=True)
class Machines:
    """The GPUs, of 80 GB each: one, or whole machines of eight."""

    gpus: int

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return max(1, self.gpus // GPUS_PER_NODE)

    @property
    def per_node(self) -> int:
        """GPUs of each machine."""
        return min(self.gpus, GPUS_PER_NODE)


@dataclass(frozen=True)
class Data:
    """Where problems come from; None takes what the environments name, which is loaded at pinned commits."""

    train: str | None = None
    train_split: str | None = None
    validation: str | None = None
    validation_split: str | None = None


@dataclass(frozen=True)
class Plan:
    """One stage on some machines."""

    recipe: Recipe
    stage: Stage
    machines: Machines
    folder: Path
    """Absolute; all machines must be able to read it. What the stage needs and writes lies in it."""
    policy: str
    """Hugging Face name or folder of the weights that the stage starts from; KL divergence is measured from them."""
    data: Data = field(default_factory=Data)
    seed: int = 42

    @property
    def train_environment(self) -> str:
        """The environment whose problems are learnt from."""
        return self.stage.environment

    @property
    def sequence_tokens(self) -> int:
        """Most tokens of a row: a problem and its response."""
        return PROMPT_TOKENS + self.stage.max_sequence_tokens

    @property
    def rows(self) -> int:
        """Rows of a step."""
        return self.recipe.rollouts.prompts * self.recipe.rollouts.samples

    @property
    def updates(self) -> int:
        """Optimizer steps of a step."""
        return self.recipe.updates

    @property
    def update_prompts(self) -> int:
        """Problems of an optimizer step."""
        return self.recipe.training.global_batch // self.recipe.rollouts.samples

    @property
    def settings(self) -> dict[str, Any]:
        """What the hub plays: the settings of its run, and the table `training` of its adapters."""
        options: dict[str, Any] = {
            "response_tokens": self.stage.max_sequence_tokens,
            "opens_thought": self.recipe.opens_thought,
        }
        validation = self.recipe.validation.environment
        if self.data.train is not None:
            options[f"{self.train_environment}.data"] = self.data.train
        if self.data.validation is not None:
            options[f"{validation}.data"] = self.data.validation
        return {
            "environments": [self.train_environment, validation],
            "agent": "single_turn",
            "concurrency": self.rows,
            "seed": self.seed,
            "set": options,
            "training": {"directory": str(self.folder / "runs")},
        }


@dataclass(frozen=True)
class Launch:
    """The files of a launch by name; `launch.sh` is the one that is run."""

    files: Mapping[str, str]
    checkpoint: Path
    """Where the stage's last weights lie in the end, in Hugging Face's format: what the next stage starts from."""


def overrides(values: Mapping[str, object]) -> list[str]:
    """Settings as `key=value`, in the grammar of hydra and OmegaConf."""
    return [f"{key}={_spelt(value)}" for key, value in values.items()]


def flags(values: Mapping[str, object]) -> list[str]:
    """Settings as `--key value`; True is the flag alone, False and None leave it out."""
    found: list[str] = []
    for key, value in values.items():
        if value is True:
            found.append(f"--{key}")
        elif value is not None and value is not False:
            found += [f"--{key}", value if isinstance(value, str) else _spelt(value)]
    return found


def _spelt(value: object) -> str:
    """A value as hydra reads it: nested ones in its flow style, texts in them quoted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_nested(each)}" for name, each in value.items()) + "}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_nested, value)) + "]"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _nested(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else _spelt(value)


def _quoted(text: object) -> str:
    return json.dumps(str(text))


def toml(settings: Mapping[str, Any]) -> str:
    """Settings with one level of tables as TOML."""
    lines = [f"{key} = {_toml(value)}" for key, value in settings.items() if not isinstance(value, Mapping)]
    for name, table in settings.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{name}]", *(f"{_quoted(key)} = {_toml(value)}" for key, value in table.items())]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # of texts, numbers, truths and lists of them TOML's form is JSON's


class Expanded(str):
    """A word whose `$head`, `$rank` and the like the shell replaces by what the script found."""


def line(*words: str, options: Iterable[str] = ()) -> str:
    """A shell command on one line."""
    return " ".join(map(_word, [*words, *options]))


def command(*words: str, options: Iterable[str] = (), before: str = "") -> str:
    """A shell command, one option a line; `before` is shell text that stands as it is."""
    head = (before + " " if before else "") + line(*words)
    return " \\\n  ".join([head, *_pairs(options)])


def _pairs(options: Iterable[str]) -> list[str]:
    """Quoted options; a flag's value stands on its line."""
    lines: list[str] = []
    for option in options:
        if lines and lines[-1].startswith("--") and " " not in lines[-1] and not option.startswith("--"):
            lines[-1] += " " + _word(option)
        else:
            lines.append(_word(option))
    return lines


def _word(text: str) -> str:
    return f'"{text}"' if isinstance(text, Expanded) else shlex.quote(text)
