"""Imports modules of training systems where their classes are needed; the error for a missing system says how to
install it.
"""

from importlib import import_module
from typing import Any

from rollouthub.trainers.trainer_adapter import trainer_adapters


def system_module(module: str) -> Any:
    """Import a module of a training system whose package an adapter's `packages` lists.

    Raises:
        ModuleNotFoundError: the system is not installed in this interpreter; the message says how to install it.
        ImportError: a dependency of the system is missing.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and lacks something of its own: its own words say what
            raise
        adapter = next((adapter for _, adapter in trainer_adapters() if package in adapter.packages), None)
        if adapter is None:
            raise
        distribution = adapter.packages[package]
        how = f"run `pip install {distribution}`" if distribution else "install it from its sources"
        is_whole = package == next(iter(adapter.packages))
        raise ModuleNotFoundError(
            f"{adapter.system if is_whole else f'{package} (for {adapter.system})'} is not installed where this runs: "
            f"{how}, or use the interpreter that has it ({adapter.page} names the version that was tested)",
            name=package,
        ) from error
