"""Where an external program runs: in a sandbox that reaches only an episode's two URLs, or on this machine."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import File, Finished, Sandbox


class Place(Protocol):
    """The sandbox or folder in which one episode's program runs; used for no other episode."""

    @property
    def home(self) -> str:
        """Path of an empty folder that is the program's HOME."""
        ...

    @property
    def workdir(self) -> str:
        """Path of the program's working folder."""
        ...

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox; None if the program runs on this machine without one."""
        ...

    async def write(self, files: Sequence[File], below: str) -> None:
        """Write files below a folder."""
        ...

    async def reach(self, address: SeatAddress) -> SeatAddress:
        """The episode's address with the two URLs as the program can reach them."""
        ...

    async def run(self, command: Sequence[str], environment: Mapping[str, str], seconds: float | None) -> Finished:
        """Run a program until it ends, `seconds` have passed or the caller is cancelled; then all its processes have
        ended.

        Raises:
            CommandNotStarted: there is no such program.
            SandboxError: the sandbox failed.
        """
        ...


class Places(Protocol):
    """Opens a place for each episode; prepared once for a run."""

    def open(self) -> AbstractAsyncContextManager[Place]:
        """Open a fresh place.

        Raises:
            SandboxError: no place is available.
        """
        ...
