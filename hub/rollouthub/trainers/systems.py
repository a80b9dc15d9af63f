"""Modules of training systems, imported where a class of theirs is needed; what is missing is named with its cure."""

from importlib import import_module
from typing import Any

_PAGES = {
    "areal": ("AReaL", "areal", "areal"),
    "datasets": ("TRL's `datasets`", "datasets", "trl"),
    "gem": ("GEM", "gem-llm", "roll"),
    "nemo_rl": ("NeMo-RL", None, "nemo-rl"),
    "openrlhf": ("OpenRLHF", "openrlhf", "openrlhf"),
    "roll": ("ROLL", None, "roll"),
    "skyrl": ("SkyRL", "skyrl", "skyrl"),
    "slime": ("slime", None, "slime"),
    "trl": ("TRL", "trl", "trl"),
    "verl": ("veRL", "verl", "verl"),
}
"""By package: the system's name, its distribution (None where it is installed from source), its page in the docs."""


def system_module(module: str) -> Any:
    """A module of a training system.

    Raises:
        ModuleNotFoundError: the system is not installed in this interpreter; the message says how to install it.
        ImportError: something that it needs itself is missing.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and lacks something of its own: its own words say what
            raise
        name, distribution, page = _PAGES[package]
        how = f"run `pip install {distribution}`" if distribution else "install it from its sources"
        raise ModuleNotFoundError(
            f"{name} is not installed where this runs: {how}, or use the interpreter that has it "
            f"(docs/trainers/{page}.md names the version that was tested)",
            name=package,
        ) from error
