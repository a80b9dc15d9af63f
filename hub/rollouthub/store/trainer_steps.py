"""`trainer.jsonl` in a run's directory: what the trainer that learns from the run logged, such as its loss."""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsFloat, cast

import msgspec

from rollouthub.errors import ConfigError, StoreError
from rollouthub.plugins.plain_files import open_plain, read_plain

TRAINER_STEPS = "trainer.jsonl"
MOST_FIGURES = 64
"""Most figures of one step."""
_MOST_BYTES = 4 * 2**20
"""How much is read of the file, from its end."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@:-]{0,99}")
_MOST_STEP = 2**53


class LoggedStep(msgspec.Struct, frozen=True):
    """What a trainer logged of one step."""

    step: int
    time: float
    """When it was logged, in Unix seconds."""
    metrics: dict[str, float | None]
    """Each figure by its name; None where it was no finite number."""


_DECODER = msgspec.json.Decoder(LoggedStep)


def logged_step(step: int, seconds: float, figures: Mapping[str, SupportsFloat]) -> LoggedStep:
    """A step of these figures.

    Raises:
        ConfigError: there are none or too many, a name is too long or has other characters, or a value is no number.
    """
    if not 0 < len(figures) <= MOST_FIGURES:
        raise ConfigError(f"{len(figures)} figures of a step were logged; give 1 to {MOST_FIGURES}")
    metrics: dict[str, float | None] = {}
    for name, value in figures.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r:.120} is no name of a figure: up to 100 letters, digits and _ . / @ : -, such as 'loss'"
            )
        if isinstance(cast(object, value), str | bytes | bool) or not hasattr(value, "__float__"):
            raise ConfigError(f"figure {name!r} = {value!r:.100} is no number")
        number = float(value)
        metrics[name] = number if math.isfinite(number) else None
    if isinstance(cast(object, step), bool) or not 0 <= step < _MOST_STEP:
        raise ConfigError(f"step {step!r:.100} is no number of a step")
    return LoggedStep(step, seconds, metrics)


def append_step(directory: Path, logged: LoggedStep) -> None:
    """Append a step to the run's file. Blocks.

    Raises:
        StoreError: the file cannot be written.
    """
    path = directory / TRAINER_STEPS
    try:
        with os.fdopen(open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), "ab") as file:
            file.write(msgspec.json.encode(logged) + b"\n")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def read_steps(directory: Path) -> list[LoggedStep]:
    """The steps that were logged, in order; of a step that was logged again, the last. Blocks.

    A line that cannot be read, such as one still being written, is left out, and so are names that `logged_step`
    refuses. Of a very long file, the end is read.
    """
    try:
        with read_plain(directory / TRAINER_STEPS) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    steps: dict[int, LoggedStep] = {}
    for line in lines:
        try:
            logged = _DECODER.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        named = {name: value for name, value in logged.metrics.items() if _NAME.fullmatch(name)}
        if named and len(named) <= MOST_FIGURES and 0 <= logged.step < _MOST_STEP:
            steps[logged.step] = LoggedStep(logged.step, logged.time, named)
    return [steps[step] for step in sorted(steps)]
