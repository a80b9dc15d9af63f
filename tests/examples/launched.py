"""DeepScaleR's launch files, written as a user writes them, and run with programs that only note their calls."""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "deepscaler"
SYSTEMS, GPUS, STAGES = ("verl", "skyrl", "nemo_rl", "trl"), (1, 8, 32), ("8K", "16K", "24K")
SIZES = list(product(GPUS, STAGES))

_NOTE = """#!/usr/bin/env bash
{{
  printf '%s\\0' {name} "${{CUDA_VISIBLE_DEVICES:-}}" "${{ROLLOUTHUB_TRAINING:-}}" "$PWD" "$@"
  printf '\\1'
}} >>"$NOTES"
if [ "${{1:-}}" = -c ]; then echo 32; fi
# A learner with GPUs of its own waits for the server.
if [ {name} = python ] && [ -n "${{CUDA_VISIBLE_DEVICES:-}}" ]; then
  until grep -aq vllm "$NOTES"; do sleep 0.05; done
fi
"""


@dataclass(frozen=True)
class Call:
    """How a program was called."""

    program: str
    gpus: str
    """CUDA_VISIBLE_DEVICES."""
    play: str
    """ROLLOUTHUB_TRAINING."""
    folder: str
    arguments: Sequence[str]


def write_launch(system: str, gpus: int, stage: str, folder: Path, *more: str) -> Path:
    """The stage's folder, with its launch files."""
    added = str(EXAMPLE) not in sys.path
    if added:
        sys.path.insert(0, str(EXAMPLE))
    try:
        import_module("launch").main([system, "--gpus", str(gpus), "--stage", stage, "-o", str(folder), *more])
    finally:
        if added:
            sys.path.remove(str(EXAMPLE))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("launch", "launches", "recipe")]:
            del sys.modules[name]
    return folder / stage


def calls(launch: Path, programs: Path, *, node: int = 0, **variables: str) -> list[Call]:
    """The calls that `launch.sh` makes on a machine, of programs that do nothing; in their order, but for servers."""
    notes = programs / f"notes-{node}"
    notes.unlink(missing_ok=True)
    for name in ("python", "ray", "vllm"):
        path = programs / name
        path.write_text(_NOTE.format(name=name))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HEAD": "127.0.0.1", "NODE": str(node)}
    done = subprocess.run(
        ["bash", str(launch / "launch.sh")],
        env={**environment, "NEMO_RL": str(programs), "LEARNER": "127.0.0.1", "NOTES": str(notes), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = [text.split("\0")[:-1] for text in notes.read_text().split("\1")[:-1]]
    return [Call(each[0], each[1], each[2], each[3], tuple(each[4:])) for each in found]


def training_call(made: Sequence[Call]) -> Call:
    """The call of the trainer itself."""
    marks = ("verl.trainer.main_ppo", "accelerate.commands.launch", "skyrl_train.py", "nemo_rl_train.py")
    (found,) = [call for call in made if any(mark in word for mark in marks for word in call.arguments[:2])]
    return found


def options_of(call: Call) -> Mapping[str, str]:
    """The `key=value` of a call."""
    return dict(word.split("=", 1) for word in call.arguments if "=" in word and not word.startswith("-"))
