"""Launch files of a stage of the recipe for veRL, SkyRL, NeMo-RL or TRL, on 1, 8 or 32 GPUs of 80 GB.

python examples/deepscaler/launch.py verl --gpus 8 --stage 8K
bash runs/deepscaler/verl/8K/launch.sh

The next stage starts from where the one before ends, in the same folder; `--policy` names other weights.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from launches import nemo_rl, skyrl, trl, verl
from launches.plan import Data, Launch, Machines, Plan
from pydantic import ValidationError
from recipe import HERE, Recipe

from rollouthub.errors import ConfigError, UnknownNameError, UsageError

SYSTEMS: dict[str, Callable[[Plan], Launch]] = {
    "verl": verl.launch,
    "skyrl": skyrl.launch,
    "nemo_rl": nemo_rl.launch,
    "trl": trl.launch,
}
GPUS = (1, 8, 32)


def main(given: Sequence[str] | None = None) -> None:
    """Write the files, and say how they are started."""
    parser = _parser()
    options = parser.parse_args(given)
    try:
        folder, made = launch(options)
        for name, text in made.files.items():
            _write(folder / name, text)
    except UsageError as error:
        parser.error(str(error))
    if options.print:
        sys.stdout.write(made.files["launch.sh"])
        return
    on = f", on each of {nodes} machines" if (nodes := options.gpus // 8) > 1 else ""
    sys.stdout.write(f"bash {folder / 'launch.sh'}{on}\n")
    sys.stdout.write(f"its last weights: {made.checkpoint}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("system", help=", ".join(SYSTEMS))
    parser.add_argument("--gpus", type=int, required=True, help="1, 8 or 32: four machines of eight")
    parser.add_argument("--stage", required=True, help="as the recipe names it: 8K, 16K, 24K")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.toml")
    parser.add_argument("-o", "--directory", type=Path, help="by default runs/deepscaler/SYSTEM; on a shared disk")
    parser.add_argument("--policy", help="weights to start from: a Hugging Face name or a folder")
    parser.add_argument("--data", help="training problems: a file, a folder or hf:NAME in place of DeepScaleR's")
    parser.add_argument("--split", help="of the training problems")
    parser.add_argument("--validation-data")
    parser.add_argument("--validation-split")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--print", action="store_true", help="print the script, too")
    return parser


def launch(options: argparse.Namespace) -> tuple[Path, Launch]:
    """The folder of the stage, and its launch.

    Raises:
        UsageError: there is no such system, stage, number of GPUs or recipe.
    """
    if options.system not in SYSTEMS:
        raise UnknownNameError("training system", options.system, SYSTEMS, "Others: docs/trainers.md.")
    if options.gpus not in GPUS:
        raise ConfigError(f"--gpus {options.gpus}: launch files are made for {', '.join(map(str, GPUS))} GPUs")
    recipe = _recipe(options.recipe)
    names = [stage.name for stage in recipe.stages]
    if options.stage not in names:
        raise UnknownNameError("stage", options.stage, names)
    root = (options.directory or Path("runs") / "deepscaler" / options.system).absolute()
    data = Data(_absolute(options.data), options.split, _absolute(options.validation_data), options.validation_split)

    def made(place: int, policy: str) -> Launch:
        stage = recipe.stages[place]
        plan = Plan(recipe, stage, Machines(options.gpus), root / stage.name, policy, data, options.seed)
        return SYSTEMS[options.system](plan)

    policy, place = options.policy or recipe.policy, names.index(options.stage)
    if options.policy is None and place:
        policy = str(made(place - 1, policy).checkpoint)
    return root / options.stage, made(place, policy)


def _recipe(path: Path) -> Recipe:
    try:
        return Recipe.read(path)
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"the recipe {str(path)!r} cannot be read: {error}") from error


def _absolute(data: str | None) -> str | None:
    """Files and folders by their absolute path, for the script runs elsewhere."""
    return str(Path(data).absolute()) if data is not None and Path(data).exists() else data


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error


if __name__ == "__main__":
    main()
