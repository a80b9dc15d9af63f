"""What this environment asks of a sandbox, and the one that is registered."""

import socket
from types import CodeType
from typing import Any, Protocol

from envhub.errors import ConfigError
from envhub.plugins import plugins

GROUP, NAME = "envhub.sandboxes", "jail"


class Output(Protocol):
    """One stream of a program, within bounds."""

    @property
    def text(self) -> str:
        """Its beginning and its end, and how much is missing between the two."""
        ...


class Finished(Protocol):
    """How a program ended."""

    @property
    def stdout(self) -> Output: ...
    @property
    def stderr(self) -> Output: ...
    @property
    def exit_status(self) -> int | None: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def used_up_its_cpu(self) -> bool: ...


class Sandbox(Protocol):
    """Runs Python programs apart from the hub."""

    async def prepare(self) -> None: ...
    async def run_python(
        self,
        program: str | CodeType,
        *,
        stdin: bytes = b"",
        cpu_seconds: float = ...,
        wall_seconds: float = ...,
        memory_bytes: int = ...,
        output_bytes: int = ...,
        channel: socket.socket | None = None,
        is_hidden: bool = False,
    ) -> Finished: ...


def find_sandbox() -> Sandbox:
    """The process sandbox that everybody in this process shares.

    Raises:
        ConfigError: it is not installed.
    """
    plugin = plugins(GROUP).get(NAME)
    if plugin is None:
        raise ConfigError(f"no sandbox {NAME!r} is registered under {GROUP!r}; install envhub again")
    make: Any = plugin.entry.load()
    return make()
