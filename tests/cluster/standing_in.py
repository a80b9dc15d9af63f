"""A program that stands in for `vllm`."""

import shlex
import sys
from pathlib import Path

STAND_IN = Path(__file__).parent / "stand_in.py"


def stand_in(folder: Path) -> str:
    """An executable with vLLM's command line; its path."""
    path = folder / "vllm"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W ignore {shlex.quote(str(STAND_IN))} "$@"\n')
    path.chmod(0o700)
    return str(path)


def model_folder(folder: Path, name: str = "small") -> Path:
    """A folder that looks like a model."""
    model = folder / name
    model.mkdir()
    (model / "config.json").write_text("{}")
    return model
