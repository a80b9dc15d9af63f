"""An episode hosted by another process, as the engine uses it."""

import base64
import logging
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from anyio import to_thread
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import EpisodeError, HubError, TaskError, VerifierError
from rollouthub.hosting.client.agent_plane_client import RemotePlane, SealFlag
from rollouthub.hosting.client.remote_media import RemoteMedia
from rollouthub.hosting.client.sent_media import sent_media
from rollouthub.hosting.client.server_connection import BLAME_SECONDS, ServerConnection, ServerFault
from rollouthub.hosting.control_wire import (
    ArtifactBodies,
    EpisodeStateBody,
    EpisodeStatus,
    LeaveRequest,
    OpenedSeat,
    Reference,
    ReplyAnswer,
    ReplyRequest,
    ShownVerifyRequest,
    Verified,
    VerifyRequest,
)
from rollouthub.hosting.local.shell_access import OfferedShells, WaysIn
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.rollout import Fault
from rollouthub.sandbox import SandboxRef
from rollouthub.score import KeptArtifact, ModelCall, Score, Submission
from rollouthub.task import AuditFacts

logger = logging.getLogger(__name__)

_SEAL = 2
"""Number of close deadlines that a seal may take: one for the calls in flight, one for the environment's own seal."""


class RemoteEpisode:
    """One attempt at one task, with the state that its server last reported."""

    def __init__(
        self,
        episode_id: str,
        connection: ServerConnection,
        deadlines: Deadlines,
        media: RemoteMedia,
        *,
        takes_turns: bool = False,
        takes_media: bool = False,
    ) -> None:
        self.id = episode_id
        self.answer: str | None = None
        self.faults: list[Fault] = []
        self.role_calls: list[ModelCall] = []
        self.sandboxes: list[SandboxRef] = []
        self.artifacts: Sequence[KeptArtifact] = ()
        self.missing_artifacts: Sequence[str] = ()
        self.seats: dict[str, RemotePlane] = {}
        self._connection, self._deadlines, self._takes_turns = connection, deadlines, takes_turns
        self._takes_media = takes_media
        self._media = media
        self._path = f"/v1/episodes/{quote(episode_id, safe='')}"
        self._sealed = SealFlag()
        self._is_closed = self._has_status = False

    @property
    def is_sealed(self) -> bool:
        """Whether the episode is sealed, as far as is known here."""
        return self._sealed.is_set

    async def take_seats(
        self, opened: Sequence[OpenedSeat], expected: Sequence[str], tools: Mapping[str, Tool]
    ) -> None:
        """Set up the seats that the server opened, and fetch the media of their messages.

        Raises:
            TaskError: the seats or tools are not those of the environment, or the server does not give the media's
            bytes.
        """
        names = [seat.name for seat in opened]
        own = [{tool.name: tool for tool in seat.task_tools} for seat in opened]
        unknown = {
            name
            for seat, more in zip(opened, own, strict=True)
            for name in seat.tools
            if name not in tools and name not in more
        }
        if sorted(names) != sorted(expected) or unknown:
            what = f"the tools {sorted(unknown)}" if unknown else f"the seats {names}"
            raise ServerFault(f"the environment server opened an episode with {what}, which it did not announce")
        for seat, more in zip(opened, own, strict=True):
            known = tuple(tools.get(name) or more[name] for name in seat.tools)
            try:
                plane = RemotePlane(seat, known, self._connection, self._deadlines, self._sealed, self._reply)
            except ValueError as error:
                raise ServerFault(f"the environment server gave a seat the URL {seat.url!r}: {error}") from None
            plane.messages = await self._held(plane.messages, self._deadlines.setup)
            self.seats[seat.name] = plane

    async def _held(self, messages: Sequence[Message], seconds: float) -> tuple[Message, ...]:
        return await self._media.held(messages, self._connection, self._path, seconds)

    async def _reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        if self.is_sealed:
            return None
        request = ReplyRequest(seat=seat, messages=tuple(messages))
        seconds = self._deadlines.agent if self._takes_turns else self._deadlines.tool_call
        answer = await self._connection.ask("POST", f"{self._path}/reply", ReplyAnswer, request, seconds=seconds)
        if answer.task_tools is not None:
            self.seats[seat].offer(answer.task_tools)
        return None if answer.messages is None else await self._held(answer.messages, seconds)

    async def leave(self, seat: str) -> None:
        """Tell the environment that a seat's player is done, if seats take turns."""
        if self._takes_turns and not self.is_sealed:
            request, seconds = LeaveRequest(seat=seat), self._deadlines.tool_call
            await self._connection.ask("POST", f"{self._path}/leave", EpisodeStatus, request, seconds=seconds)

    async def reference(self, seat: str | None = None) -> Sequence[Message]:
        """Privileged: the reference solution for a seat, by default the first; empty if there is none."""
        path = f"{self._path}/reference"
        if seat is not None and len(self.seats) > 1:
            path += f"?seat={quote(seat, safe='')}"
        return (await self._connection.ask("GET", path, Reference, seconds=self._deadlines.setup)).messages

    async def audit_facts(self) -> AuditFacts:
        """Privileged: what an audit must know of the task; nothing where the server has no such route.

        Raises:
            EpisodeError: the error that the server reported.
        """
        path = f"{self._path}/audit"
        try:
            return await self._connection.call("GET", path, AuditFacts, seconds=self._deadlines.setup)
        except EpisodeError:
            raise
        except HubError:
            return AuditFacts()

    async def snapshot(self) -> JsonValue:
        """Privileged: the environment's state."""
        seconds = self._deadlines.setup
        return (await self._connection.ask("GET", f"{self._path}/state", EpisodeStateBody, seconds=seconds)).state

    async def ways_in(self) -> WaysIn:
        """How to open a shell in its sandbox, as its server says; none if the server is on another machine."""
        elsewhere = self._connection.elsewhere
        if elsewhere is not None:
            return WaysIn(why_not=f"its environment is served by {elsewhere}, another machine")
        if self.is_sealed:
            return WaysIn(why_not="the agent's time is over")
        try:
            answer = await self._connection.call(
                "GET", f"{self._path}/doors", OfferedShells, seconds=self._deadlines.tool_call
            )
        except HubError as error:
            return WaysIn(why_not=f"its environment's server tells no way in: {error}")
        return answer.ways_in

    async def seal(self) -> None:
        """Seal the episode: revoke the tokens, cancel calls in flight, and read the episode's status."""
        if self._has_status:
            return
        self._sealed.is_set = True
        seconds = self._deadlines.close * _SEAL + BLAME_SECONDS
        self._note(await self._connection.ask("POST", f"{self._path}/seal", EpisodeStatus, seconds=seconds))

    def _note(self, status: EpisodeStatus) -> None:
        self._has_status = True
        self.answer = status.answer
        self.faults[:] = status.faults
        self.role_calls[:] = status.role_calls
        self.sandboxes[:] = status.sandboxes
        self.missing_artifacts = status.missing_artifacts

    async def verify(self, submission: Submission) -> Score:
        """Seal and score a submission that may have been played in another episode; the server caches the score.

        Raises:
            VerifierError: there is no score.
            TaskError: the server is gone.
        """
        request = VerifyRequest(submission=submission)
        if self._takes_media:
            _, sent = await to_thread.run_sync(sent_media, [submission])
            request = ShownVerifyRequest(submission=submission, media=sent) if sent else request
        score = await self._verify(request)
        if score is None:
            raise VerifierError("the environment server gave no score")
        return score

    async def conclude(self, submission: Submission) -> Score | None:
        """Seal and score; None if the environment broke before.

        Raises:
            VerifierError: there is no score.
            TaskError: the server is gone.
        """
        return await self._verify(VerifyRequest(submission=submission, unless_broken=True))

    async def _verify(self, request: VerifyRequest) -> Score | None:
        self._sealed.is_set = True
        seconds = self._deadlines.verify + self._deadlines.close * _SEAL + BLAME_SECONDS
        verified = await self._connection.ask("POST", f"{self._path}/verify", Verified, request, seconds=seconds)
        self._note(verified.status)
        if verified.status.artifacts:
            await self._fetch_artifacts(verified.status)
        self.role_calls[:] = await self._with_media(self.role_calls)
        score = verified.score
        if score is None or not score.judge_calls:
            return score
        return score.model_copy(update={"judge_calls": await self._with_media(score.judge_calls)})

    async def _with_media(self, calls: Sequence[ModelCall]) -> tuple[ModelCall, ...]:
        """The calls with the bytes of their media; a call whose media cannot be fetched stays without."""
        held: list[ModelCall] = []
        for call in calls:
            try:
                messages = await self._held(call.messages, self._deadlines.tool_call)
            except TaskError as error:
                logger.warning("what the model %r was shown is not kept: %s", call.role, error)
                messages = call.messages
            held.append(call.model_copy(update={"messages": messages}))
        return tuple(held)

    async def _fetch_artifacts(self, status: EpisodeStatus) -> None:
        seconds, expected = self._deadlines.close, set(status.artifacts)
        bodies = await self._connection.ask("GET", f"{self._path}/artifacts", ArtifactBodies, seconds=seconds)
        try:
            kept = [KeptArtifact.of(body.name, base64.b64decode(body.data)) for body in bodies.artifacts]
        except ValueError as error:
            raise self._connection.fault(f"gave an artifact that is no base64: {error}") from None
        self.artifacts = [artifact for artifact in kept if artifact.ref in expected]
        if len(self.artifacts) < len(expected):
            self.missing_artifacts = [*self.missing_artifacts, "the environment server gave others than it named"]

    async def close(self) -> None:
        """Close the episode; idempotent.

        Raises:
            TaskError: the environment's clean-up failed, or the server is gone.
        """
        if self._is_closed:
            return
        self._sealed.is_set = True
        self.seats = {}
        seconds = self._deadlines.close * (_SEAL + 1) + BLAME_SECONDS
        try:
            self._note(await self._connection.ask("DELETE", self._path, EpisodeStatus, seconds=seconds))
        except EpisodeError as error:
            self._is_closed = True
            raise error if isinstance(error, TaskError) else TaskError(f"close failed: {error}") from error
        self._is_closed = True  # and not before: cut short by a cancellation, it is asked for again
