"""Samples."""

# pyright: basic

from typing import Any

from pydantic import BaseModel


class Sample(BaseModel):
    """One of a dataset."""

    input: str
    target: str = ""
    choices: "list[str] | None" = None
    id: "int | str | None" = None
    metadata: "dict[str, Any] | None" = None
    sandbox: Any = None
    setup: "str | None" = None


MemoryDataset = list
