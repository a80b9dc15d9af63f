"""Modules of a source."""

# pyright: basic

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def iter_modules(path: Path) -> "Iterator[Any]":
    """Import a file, or those of a folder."""
    for file in [path] if path.is_file() else sorted(path.glob("*.py")):
        spec: Any = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
