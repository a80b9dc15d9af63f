"""Where an external program runs: a sandbox that reaches only an episode's two URLs, or this machine."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import File, Finished, Sandbox


class Place(Protocol):
    """One episode's place, and nobody else's before or after."""

    @property
    def home(self) -> str:
        """An empty folder that is the program's HOME."""
        ...

    @property
    def workdir(self) -> str:
        """Where the program starts."""
        ...

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox it is; None where it is this machine."""
        ...

    async def write(self, files: Sequence[File], below: str) -> None:
        """Put files below a folder."""
        ...

    async def reach(self, address: SeatAddress) -> SeatAddress:
        """The two URLs as the program reaches them."""
        ...

    async def run(self, command: Sequence[str], environment: Mapping[str, str], seconds: float | None) -> Finished:
        """Run a program to its end; then, at the deadline, or when the caller is cancelled, its whole tree is dead.

        Raises:
            CommandNotStarted: there is no such program.
            SandboxError: the place itself broke.
        """
        ...


class Places(Protocol):
    """Makes places; made ready once for a run."""

    def open(self) -> AbstractAsyncContextManager[Place]:
        """A fresh place.

        Raises:
            SandboxError: none can be had.
        """
        ...
