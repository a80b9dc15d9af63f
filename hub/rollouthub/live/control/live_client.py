"""The client of running hubs: finds their sockets, sends requests, follows events."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import ValidationError

from rollouthub.errors import LiveControlError, UnknownNameError, UsageError, said
from rollouthub.live.control.live_protocol import LONGEST_ANSWER, Done, Event, Following, HubLine, RequestProblem
from rollouthub.live.control.live_views import RolloutDetails, RunListing
from rollouthub.live.control.peer_credentials import is_trusted
from rollouthub.live.control.socket_folder import find_sockets, socket_folders

ANSWER_SECONDS = 10.0


class LiveClient:
    """A connection to one running hub; one request at a time."""

    def __init__(self, stream: anyio.abc.ByteStream, path: Path) -> None:
        self._stream, self._path = stream, path
        self._lines = BufferedByteReceiveStream(stream)
        self._last_id = 0

    async def list(self, limit: int = 200) -> RunListing:
        """List the run's facts and the attempts in flight."""
        return RunListing.model_validate(await self._ask("list", limit=limit))

    async def show(self, rollout_id: str, *, content: bool = False) -> RolloutDetails:
        """Show one rollout in flight."""
        return RolloutDetails.model_validate(await self._ask("show", rollout=rollout_id, content=content))

    async def cancel(self, rollout_id: str | None) -> Done:
        """Cancel a rollout without a score; None is the whole run."""
        return Done.model_validate(await self._ask("cancel", **_target(rollout_id)))

    async def interrupt(self, rollout_id: str | None) -> Done:
        """End a rollout's agent phase, and score it; None lets the run start no new attempts."""
        return Done.model_validate(await self._ask("interrupt", **_target(rollout_id)))

    async def resize(self, concurrency: int) -> Done:
        """Set how many episodes the run plays at a time."""
        return Done.model_validate(await self._ask("retune", concurrency=concurrency))

    async def resize_workers(self, workers: int) -> Done:
        """Set the number of worker processes."""
        return Done.model_validate(await self._ask("retune", workers=workers))

    async def pause(self) -> Done:
        """Let the run start no new attempts until it is resumed."""
        return Done.model_validate(await self._ask("pause"))

    async def resume(self) -> Done:
        """Resume a paused run."""
        return Done.model_validate(await self._ask("resume"))

    async def tell(self, rollout_id: str, text: str) -> Done:
        """Send a message to an agent, as its user."""
        return Done.model_validate(await self._ask("tell", rollout=rollout_id, text=text))

    async def retry(self, rollout_id: str) -> Done:
        """Play a sample again that ended without a result."""
        return Done.model_validate(await self._ask("retry", rollout=rollout_id))

    async def retune(self, rollout_id: str, limits: Mapping[str, float | None]) -> Done:
        """Change limits of one rollout; None removes a limit."""
        return Done.model_validate(await self._ask("retune", rollout=rollout_id, limits=dict(limits)))

    async def events(self) -> AsyncGenerator[Event]:
        """Events from now on; ends after the last event, with the connection.

        Raises:
            LiveControlError: the hub closed the connection without the last event.
        """
        Following.model_validate(await self._ask("events"))
        while True:
            line = await self._read()
            if line.event is not None:
                yield line.event
                if line.event.kind == "run_ended":
                    return

    async def _ask(self, method: str, **fields: Any) -> dict[str, Any]:
        self._last_id += 1
        question = {"id": self._last_id, "method": method, **fields}
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                await self._stream.send(_encoded(question))
                while (line := await self._read()).event is not None or line.id not in (self._last_id, None):
                    pass
        except TimeoutError:
            raise LiveControlError(
                f"the hub at {self._path} did not answer within {ANSWER_SECONDS:g} s; it may be overloaded or stuck"
            ) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise _gone(self._path) from error
        if line.error is not None:
            raise _error(line.error, method, fields)
        return dict(line.result or {})

    async def _read(self) -> HubLine:
        try:
            return HubLine.model_validate_json(await self._lines.receive_until(b"\n", LONGEST_ANSWER))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise _gone(self._path) from error
        except (anyio.DelimiterNotFound, ValidationError) as error:
            raise LiveControlError(
                f"what listens at {self._path} does not speak as a hub does: {said(error)}"
            ) from error


@asynccontextmanager
async def knock(path: Path) -> AsyncGenerator[LiveClient]:
    """Connect to a socket.

    Raises:
        LiveControlError: no process answers, or one of another user does.
    """
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            stream = await anyio.connect_unix(path)
    except (OSError, TimeoutError) as error:
        raise LiveControlError(f"no hub answers at {path} ({said(error)}); `hub live` shows those that do") from error
    async with stream:
        if not is_trusted(stream.extra(SocketAttribute.raw_socket)):
            raise LiveControlError(f"the socket {path} is not held by a process of yours")
        yield LiveClient(stream, path)


@dataclass(frozen=True)
class RunningHub:
    """A hub process that plays a run: its socket, and the run's description."""

    path: Path
    listing: RunListing


async def find_running(environ: Mapping[str, str], limit: int = 200) -> tuple[list[RunningHub], list[str]]:
    """The running hubs, oldest first; and the problems of sockets that listen but do not answer."""
    folders = socket_folders(environ)
    found: list[RunningHub] = []
    problems: list[str] = []
    for path in await anyio.to_thread.run_sync(find_sockets, folders):
        try:
            async with knock(path) as client:
                found.append(RunningHub(path, await client.list(limit)))
        except LiveControlError as error:
            problems.append(str(error))
    return found, problems


def choose_run(running: Sequence[RunningHub], name: str | None) -> RunningHub:
    """The hub that a RUN argument names: by directory, run id or its beginning; without an argument, the only one.

    Raises:
        UsageError: no hub matches, or several do.
    """
    if not running:
        raise UsageError("no hub of yours plays here; start one (`hub run …`), and look again while it plays")
    if name is None:
        if len(running) > 1:
            raise UsageError(f"{len(running)} hubs play; name one with --run: {_names(running)}")
        return running[0]
    directory = str(Path(name).absolute())
    matches = [hub for hub in running if hub.listing.run.directory == directory or hub.listing.run.run_id == name]
    matches = matches or [hub for hub in running if hub.listing.run.run_id.startswith(name)]
    matches = matches or [hub for hub in running if Path(hub.listing.run.directory).name == name]
    if not matches:
        names = [known for hub in running for known in (hub.listing.run.run_id, Path(hub.listing.run.directory).name)]
        raise UnknownNameError("run in flight", name, names)
    if len(matches) > 1:
        raise UsageError(f"{name!r} could be several runs: {_names(matches)}")
    return matches[0]


def _names(running: Sequence[RunningHub]) -> str:
    return ", ".join(f"{hub.listing.run.run_id} ({hub.listing.run.directory})" for hub in running)


def _target(rollout_id: str | None) -> dict[str, Any]:
    return {"run": True} if rollout_id is None else {"rollout": rollout_id}


def _encoded(question: Mapping[str, Any]) -> bytes:
    # As it is, and not as escapes: a request has only so many bytes.
    return json.dumps(question, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"


def _error(problem: RequestProblem, method: str, fields: Mapping[str, Any]) -> Exception:
    if problem.kind == "unknown_rollout" and method == "retry":
        hint = "What ended a moment ago is known in a moment."
        return UnknownNameError("rollout without a result", str(fields.get("rollout")), problem.known, hint)
    if problem.kind == "unknown_rollout":
        hint = "" if problem.known else "Nothing is in flight."
        return UnknownNameError("rollout in flight", str(fields.get("rollout")), problem.known, hint)
    return UsageError(problem.message) if problem.kind == "bad_request" else LiveControlError(problem.message)


def _gone(path: Path) -> LiveControlError:
    return LiveControlError(f"the hub at {path} went away; `hub runs` shows how its run ended")
