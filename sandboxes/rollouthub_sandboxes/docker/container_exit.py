"""Explains why a container ended, from the engine's state and events."""

import time

import anyio

from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.sandbox import Resources
from rollouthub_sandboxes.docker.resource_bounds import RECENT_SECONDS, blamed
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.attach_stream import Attached
from rollouthub_sandboxes.engine.engine import Engine, EngineError

ASK_SECONDS = 3.0
_KILLED = "137"


class ContainerStream:
    """The byte stream to the first process of a container; when it ends, it raises an error that says why."""

    def __init__(self, engine: Engine, container: str, resources: Resources, attached: Attached) -> None:
        self._engine, self._container, self._attached = engine, container, attached
        self._resources = resources
        self._since = int(time.time()) - 1
        self._is_closed = False
        self.ended: SandboxError | None = None
        """Why the container was ended on purpose; set by the code that ends it, else None."""

    async def receive(self) -> bytes:
        """The next bytes of the stream.

        Raises:
            SandboxError: the hub ended the container (the error says why), or programs in it used up its memory
                (`SandboxOverrun`).
            ConnectionResetError: the container or the engine ended for another reason, which the error names.
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
        """The error for a container that does not respond: a `SandboxOverrun` if it is at its resource limits."""
        return self.ended or await blamed(self._engine, self._container, self._resources, reason)

    async def send(self, data: bytes) -> None:
        """Send all of `data` to the first process of the container."""
        await self._attached.send(data)

    async def send_eof(self) -> None:
        """Close the stream to the first process: the supervisor then ends everything."""
        await self._attached.send_eof()

    async def aclose(self) -> None:
        """Close the stream, which ends the container."""
        self._is_closed = True
        await self._attached.aclose()


async def why_ended(engine: Engine, container: str, since: int) -> str:
    """Why a container ended, in words, from the engine's events; says so where the engine does not know.

    Raises:
        SandboxOverrun: its programs, or its files kept in memory, used up its memory.
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
    """Whether the first process ended because memory ran out: it was killed for it, or failed within a minute of it."""
    if oom is None or _status(died) == "0":
        return False
    return _status(died) == _KILLED or int(died["time"]) - int(oom["time"]) <= RECENT_SECONDS


def _status(died: Json) -> str:
    attributes: Json = died.get("Actor", {}).get("Attributes", {})
    return str(attributes.get("exitCode") or attributes.get("containerExitCode"))
