"""Environments."""

# pyright: basic

import inspect
from typing import Any


class Template:
    """A registered generator."""

    def __init__(self, func: Any) -> None:
        self.func, self.id = func, func.__name__

    def manifest_entry(self) -> "dict[str, Any]":
        """What it takes."""
        parameters = inspect.signature(self.func).parameters.values()
        return {"args": {"required": [each.name for each in parameters if each.default is inspect.Parameter.empty]}}


class Environment:
    """Templates and capabilities."""

    def __init__(self, name: str, capabilities: Any = ()) -> None:
        self.name, self.capabilities, self.tasks = name, list(capabilities), {}

    def template(self) -> Any:
        """Register a generator."""

        def registered(func: Any) -> Any:
            self.tasks[func.__name__] = Template(func)
            return func

        return registered

    async def start(self) -> None:
        """Nothing is to be started."""
