"""Writes the problems of the recipe in a training system's form: names of tasks and their words, and nothing secret.

python examples/deepscaler/prompts.py verl play.toml

`play.toml` is what `launch.py` writes: the first environment is learnt from, the second validates.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rollouthub.errors import UsageError
from rollouthub.task import Public
from rollouthub.trainers import nemo_rl, skyrl, verl
from rollouthub.trainers.blocking_scorer import blocking_scorer
from rollouthub.trainers.workers.worker_settings import read_settings

Write = Callable[[Path, Sequence[Public], str, str], int]


def _verl(path: Path, tasks: Sequence[Public], environment: str, split: str) -> int:
    return verl.write_prompts(verl.prompt_rows(tasks, environment, split), path)


WRITERS: dict[str, tuple[str, Write]] = {
    "verl": ("parquet", _verl),
    "skyrl": ("jsonl", skyrl.write_prompts),
    "nemo_rl": ("jsonl", nemo_rl.write_gym_data),
}


def main(given: Sequence[str] | None = None) -> None:
    """Write `train` and `validation` beside `play.toml`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("system", choices=WRITERS)
    parser.add_argument("play", type=Path)
    parser.add_argument("--train-split", help="by default the environment's own")
    parser.add_argument("--validation-split")
    options = parser.parse_args(given)
    ending, write = WRITERS[options.system]
    try:
        request = read_settings(options.play).request
        with blocking_scorer(request=request, model="mock/solver") as scorer:
            splits = (options.train_split, options.validation_split)
            for name, environment, split in zip(("train", "validation"), scorer.environments, splits, strict=True):
                split = split or scorer.split_of(environment)
                path = options.play.parent / f"{name}.{ending}"
                count = write(path, scorer.tasks(environment, split), environment, split)
                sys.stdout.write(f"{path}: {count} problems of {environment}, split {split}\n")
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
