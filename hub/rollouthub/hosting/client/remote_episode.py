"""An episode that another process hosts, as the engine sees it."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import EpisodeError, HubError, TaskError, VerifierError
from rollouthub.hosting.client.agent_plane_client import Latch, RemotePlane
from rollouthub.hosting.client.server_connection import BLAME_SECONDS, ServerConnection, ServerFault
from rollouthub.hosting.control_wire import (
    EpisodeStateBody,
    EpisodeStatus,
    OpenedSeat,
    Reference,
    ReplyAnswer,
    ReplyRequest,
    Verified,
    VerifyRequest,
)
from rollouthub.hosting.local.shell_access import Doors, WaysIn
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.rollout import Fault
from rollouthub.sandbox import SandboxRef
from rollouthub.score import ModelCall, Score, Submission

_SEAL = 2
"""Deadlines of closing that a seal may take: one for the calls in flight, one for the world's own."""


class RemoteEpisode:
    """One attempt at one task; what its server last said of it is kept here."""

    def __init__(self, episode_id: str, connection: ServerConnection, deadlines: Deadlines) -> None:
        self.id = episode_id
        self.answer: str | None = None
        self.faults: list[Fault] = []
        self.role_calls: list[ModelCall] = []
        self.sandboxes: list[SandboxRef] = []
        self.seats: dict[str, RemotePlane] = {}
        self._connection, self._deadlines = connection, deadlines
        self._path = f"/v1/episodes/{quote(episode_id, safe='')}"
        self._sealed = Latch()
        self._is_closed = self._has_status = False

    @property
    def is_sealed(self) -> bool:
        """Whether the agent's time is over, as far as it is known here."""
        return self._sealed.is_set

    def take_seats(self, opened: Sequence[OpenedSeat], expected: Sequence[str], tools: Mapping[str, Tool]) -> None:
        """Sit down at the seats the server opened.

        Raises:
            ServerFault: they are not those of the environment, or have tools it has not.
        """
        names = [seat.name for seat in opened]
        unknown = {name for seat in opened for name in seat.tools} - tools.keys()
        if sorted(names) != sorted(expected) or unknown:
            what = f"the tools {sorted(unknown)}" if unknown else f"the seats {names}"
            raise ServerFault(f"the environment server opened an episode with {what}, which it did not announce")
        for seat in opened:
            known = tuple(tools[name] for name in seat.tools)
            try:
                plane = RemotePlane(seat, known, self._connection, self._deadlines, self._sealed, self._reply)
            except ValueError as error:
                raise ServerFault(f"the environment server gave a seat the URL {seat.url!r}: {error}") from None
            self.seats[seat.name] = plane

    async def _reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        if self.is_sealed:
            return None
        request = ReplyRequest(seat=seat, messages=tuple(messages))
        seconds = self._deadlines.tool_call
        return (
            await self._connection.ask("POST", f"{self._path}/reply", ReplyAnswer, request, seconds=seconds)
        ).messages

    async def reference(self) -> Sequence[Message]:
        """Privileged: the reference solution; empty where there is none."""
        seconds = self._deadlines.setup
        return (await self._connection.ask("GET", f"{self._path}/reference", Reference, seconds=seconds)).messages

    async def snapshot(self) -> JsonValue:
        """Privileged: the world's state."""
        seconds = self._deadlines.setup
        return (await self._connection.ask("GET", f"{self._path}/state", EpisodeStateBody, seconds=seconds)).state

    async def ways_in(self) -> WaysIn:
        """The ways into its sandbox, as its server tells them; none into one on another machine."""
        elsewhere = self._connection.elsewhere
        if elsewhere is not None:
            return WaysIn(why_not=f"its environment is served by {elsewhere}, another machine")
        if self.is_sealed:
            return WaysIn(why_not="the agent's time is over")
        try:
            answer = await self._connection.call("GET", f"{self._path}/doors", Doors, seconds=self._deadlines.tool_call)
        except HubError as error:
            return WaysIn(why_not=f"its environment's server tells no way in: {error}")
        return answer.ways_in

    async def seal(self) -> None:
        """Latch: revoke the tokens, cancel calls in flight; learn what the server noted so far."""
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

    async def verify(self, submission: Submission) -> Score:
        """Seal and score; idempotent and cached where the episode lives.

        Raises:
            VerifierError: there is no score.
            TaskError: the server is gone.
        """
        score = await self._verify(VerifyRequest(submission=submission))
        if score is None:
            raise VerifierError("the environment server gave no score")
        return score

    async def conclude(self, submission: Submission) -> Score | None:
        """Seal, and score unless the environment broke before.

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
        return verified.score

    async def close(self) -> None:
        """Tear down; idempotent.

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
