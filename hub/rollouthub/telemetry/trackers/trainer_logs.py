"""Reads a trainer's own logs: loss, KL and gradient norm by step, in any of several formats.

| who | what is read |
| --- | --- |
| TensorBoard (TRL, verl, OpenRLHF, NeMo-RL …) | event files, `events.out.tfevents.*` |
| Hugging Face Trainer, TRL | `trainer_state.json`: its `log_history`, of every checkpoint |
| verl's file logger, and JSON lines in general | `*.jsonl`: a step and numbers, flat or under `data` or `metrics` |
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from rollouthub.errors import DataError, UsageError
from rollouthub.telemetry.trackers.event_file import read_scalars

_DEPTH = 4
_STEPS = ("step", "global_step", "training/global_step", "train/global_step", "_step", "iteration")
_TIMES = ("timestamp", "time", "_timestamp", "wall_time")
_NESTED = ("data", "metrics", "logs")
_CANONICAL: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("loss", re.compile(r"^(?:.*/)?(?:loss|train_loss|actor_loss|policy_loss|pg_loss|loss/policy)$")),
    ("kl", re.compile(r"^(?:.*/)?(?:kl|ppo_kl|approx_kl|mean_kl|kl_loss|kl_mean|kl_divergence|reward_kl_penalty)$")),
    ("grad_norm", re.compile(r"^(?:.*/)?(?:grad_norm|gradient_norm|global_grad_norm)$")),
    ("entropy", re.compile(r"^(?:.*/)?(?:entropy|entropy_loss|policy_entropy)$")),
    ("learning_rate", re.compile(r"^(?:.*/)?(?:learning_rate|lr)$")),
    ("trainer_reward", re.compile(r"^(?:.*/)?(?:reward|rewards?/mean|score/mean|mean_reward)$")),
)
_OF_OTHERS = re.compile(r"^(?:eval|val|test|critic|vf|value)[_/]")
"""Prefixes of figures that are not of the trained policy, but of another model or split. A reward is still taken:
verl logs it as `critic/rewards/mean`.
"""


@dataclass
class TrainerStep:
    """The figures that a trainer logged at one step."""

    step: int
    seconds: float | None = None
    """Unix time in seconds; None if the log has no times."""
    values: dict[str, float] = field(default_factory=dict[str, float])
    """Those of `loss`, `kl`, `grad_norm`, `entropy`, `learning_rate` and `trainer_reward` that the trainer logged."""


def read_trainer_logs(path: Path) -> list[TrainerStep]:
    """The steps in a trainer's log file, or in the logs below a folder, in order.

    Raises:
        UsageError: the path does not exist, or has no trainer's log.
        DataError: a log cannot be read.
    """
    if not path.exists():
        raise UsageError(f"there are no trainer's logs at {str(path)!r}; name its output or log folder")
    steps: dict[int, TrainerStep] = {}
    for file in _logs(path):
        for step, seconds, name, value in _points(file):
            canonical = canonical_figure(name)
            if canonical is None or not math.isfinite(value):
                continue
            known = steps.setdefault(step, TrainerStep(step))
            known.seconds = seconds if seconds is not None else known.seconds
            known.values[canonical] = value
    if not steps:
        raise UsageError(
            f"no log of a trainer is in {str(path)!r}: event files, trainer_state.json, or *.jsonl with a step and a "
            "loss, KL or gradient norm"
        )
    return [steps[step] for step in sorted(steps)]


def _logs(path: Path) -> Iterator[Path]:
    """The log files in order of modification, because values of later files replace those of earlier ones at the
    same step.
    """
    if path.is_file():
        yield path
        return
    found: list[tuple[float, Path]] = []
    for folder, folders, names in os.walk(path):
        if len(Path(folder).relative_to(path).parts) >= _DEPTH:
            folders.clear()
        for name in names:
            file = Path(folder) / name
            if ".tfevents." in name or name == "trainer_state.json" or name.endswith(".jsonl"):
                found.append((file.stat().st_mtime, file))
    yield from (file for _, file in sorted(found))


def _points(file: Path) -> Iterator[tuple[int, float | None, str, float]]:
    if ".tfevents." in file.name:
        yield from read_scalars(file)
    elif file.suffix == ".json":
        yield from _entries(_history(file))
    else:
        yield from _entries(_lines(file))


def _history(file: Path) -> Iterator[Any]:
    try:
        state: Any = json.loads(file.read_text())
        yield from state["log_history"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"is no trainer_state.json: {error}", file) from error


def _lines(file: Path) -> Iterator[Any]:
    """The entries of a file of JSON lines; invalid lines, such as one still being written, are skipped."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _entries(entries: Iterator[Any]) -> Iterator[tuple[int, float | None, str, float]]:
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        values = cast(dict[str, Any], entry)
        for name in _NESTED:
            if isinstance(nested := values.get(name), dict):
                values = {**values, **cast(dict[str, Any], nested)}
        step = _number(values, _STEPS)
        if step is None:
            continue
        seconds = _number(values, _TIMES)
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield int(step), seconds, name, float(value)


def _number(values: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        if isinstance(value := values.get(name), int | float) and not isinstance(value, bool):
            return float(value)
    return None


def canonical_figure(name: str) -> str | None:
    """The figure that a logged name stands for, such as `loss`; None if it is none of those that are read."""
    lowered = name.lower()
    for canonical, pattern in _CANONICAL:
        if pattern.match(lowered) and (canonical == "trainer_reward" or not _OF_OTHERS.match(lowered)):
            return canonical if not lowered.startswith(("eval", "val", "test")) else None
    return None
