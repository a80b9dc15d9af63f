"""Explains why a container ended, from the engine's state and events."""

import time

import anyio

from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.sandbox import Resources
from rollouthub_sandboxes.docker.api import Json
from rollouthub_sandboxes.docker.attach_stream import Attached
from rollouthub_sandboxes.docker.engine import Engine, EngineError
from rollouthub_sandboxes.docker.resource_bounds import RECENT_SECONDS, blamed

ASK_SECONDS = 3.0
_KILLED = "137"


class ContainerStream:
    """The byte stream to the first process of a container; its end says why it ended."""

    def __init__(self, engine: Engine, container: str, resources: Resources, attached: Attached) -> None:
        self._engine, self._container, self._attached = engine, container, attached
        self._resources = resources
        self._since = int(time.time()) - 1
        self._is_closed = False
        self.ended: SandboxError | None = None
        """Set by who ends the container on purpose: why."""

    async def receive(self) -> bytes:
        """Some bytes.

        Raises:
            SandboxError: somebody has ended the container, and why; or what ran in it has (`SandboxOverrun`).
            ConnectionResetError: the container has ended, and why; or the engine has.
        """
        data = await self._attached.receive()
        if data or self._is_closed:
            return data
        if self.ended is not None:
            raise self.ended
        reason = await why_ended(self._engine, self._container, self._since)
        said = self._attached.errors
        raise ConnectionResetError(f"{reason}; it said: {said[-500:]}" if said else reason)

    async def blamed(self, reason: str) -> SandboxError:
        """The error for a container that does not do as it is told: a `SandboxOverrun` where it is at its bounds."""
        return self.ended or await blamed(self._engine, self._container, self._resources, reason)

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        await self._attached.send(data)

    async def send_eof(self) -> None:
        """Say that no more follows: the supervisor then ends everything."""
        await self._attached.send_eof()

    async def aclose(self) -> None:
        """Let go; the container ends by that."""
        self._is_closed = True
        await self._attached.aclose()


async def why_ended(engine: Engine, container: str, since: int) -> str:
    """A container's end in words; never raises for what the engine does not know.

    Raises:
        SandboxOverrun: its programs, or the files it keeps in memory, left its first process none.
    """

    def noted() -> list[Json]:
        until = int(time.time()) + 1
        return list(engine.api.events(since=since, until=until, filters={"container": [container]}, decode=True))

    with anyio.move_on_after(ASK_SECONDS):
        try:
            return _told(await engine.call_again(noted))
        except EngineError as error:
            return f"its container's engine is gone: {error}"
    return f"its container ended, and {engine.name} does not say why"


def _told(events: list[Json]) -> str:
    actions: dict[str, Json] = {str(event.get("Action") or event.get("status")): event for event in events}
    died = actions.get("die") or actions.get("died")
    if "kill" in actions:
        return "its container was killed from outside"
    if died is not None and _wanted_memory(died, actions.get("oom")):
        raise SandboxOverrun("the sandbox is gone: what ran in it used up its memory, and the kernel ended it")
    if died is None:
        return "its container's connection was cut by the engine"
    return f"its container ended with exit status {_status(died)}"


def _wanted_memory(died: Json, oom: Json | None) -> bool:
    """Whether a first process died of want of memory: killed for it, or as it could not go on without."""
    if oom is None or _status(died) == "0":
        return False
    return _status(died) == _KILLED or int(died["time"]) - int(oom["time"]) <= RECENT_SECONDS


def _status(died: Json) -> str:
    attributes: Json = died.get("Actor", {}).get("Attributes", {})
    return str(attributes.get("exitCode") or attributes.get("containerExitCode"))
