"""Rows."""

# pyright: basic

from typing import Any

from pydantic import BaseModel


class Task(BaseModel):
    """One task."""

    env: str
    id: str
    args: "dict[str, Any]" = {}
    slug: str
    verifier: Any = None
