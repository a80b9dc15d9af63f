"""Reads the weights in a folder in Hugging Face's format."""

from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.errors import UsageError, describe


def read_weights(folder: Path | str) -> dict[str, Any]:
    """The tensors of a folder's `*.safetensors`, by name, in memory.

    Raises:
        UsageError: there are none, or they cannot be read.
    """
    files = sorted(file for file in Path(folder).glob("*.safetensors") if file.is_file())  # no pipe, which would hang
    if not files:
        raise UsageError(f"{folder} has no *.safetensors")
    load: Any = import_module("safetensors.torch").load_file
    try:
        return {name: tensor for file in files for name, tensor in load(file).items()}
    except Exception as error:  # safetensors' own is no OSError, and its module is imported late
        raise UsageError(f"the weights in {folder} cannot be read: {describe(error)}") from error
