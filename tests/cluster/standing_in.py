"""A program that stands in for `vllm` and `sglang`."""

import shlex
import sys
from pathlib import Path

STAND_IN = Path(__file__).parent / "stand_in.py"


def stand_in(folder: Path, name: str = "vllm") -> str:
    """An executable with the command line of vLLM or SGLang; its path."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W ignore {shlex.quote(str(STAND_IN))} "$@"\n')
    path.chmod(0o700)
    return str(path)


def model_folder(folder: Path, name: str = "small") -> Path:
    """A folder that looks like a model."""
    model = folder / name
    model.mkdir()
    (model / "config.json").write_text("{}")
    return model
