"""An episode that another process hosts, as the engine sees it."""

from collections.abc import Mapping, Sequence

from mcp_types import Tool
from pydantic import JsonValue

from envhub.errors import HubError, TaskError, VerifierError
from envhub.hosting.control import (
    EpisodeStatus,
    OpenedEpisode,
    Reference,
    ReplyAnswer,
    ReplyRequest,
    State,
    Verified,
    VerifyRequest,
)
from envhub.hosting.remote.agent import RemotePlane
from envhub.hosting.remote.connection import Connection
from envhub.limits import Deadlines
from envhub.messages import Message
from envhub.rollout import Fault
from envhub.score import ModelCall, Score
from envhub.submission import Submission


class RemoteEpisode:
    """One attempt at one task; what its server last said of it is kept here."""

    def __init__(
        self, opened: OpenedEpisode, tools: Mapping[str, Tool], connection: Connection, deadlines: Deadlines
    ) -> None:
        self.id = opened.id
        self.is_sealed = False
        self.answer: str | None = None
        self.faults: list[Fault] = []
        self.role_calls: list[ModelCall] = []
        self._connection, self._deadlines = connection, deadlines
        self._path = f"/v1/episodes/{opened.id}"
        self._is_closed = self._has_status = False
        self.seats = {
            seat.name: RemotePlane(
                seat, tuple(tools[name] for name in seat.tools), connection, deadlines, self._on_sealed, self._reply
            )
            for seat in opened.seats
        }

    def _on_sealed(self) -> None:
        self.is_sealed = True

    async def _reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        if self.is_sealed:
            return None
        request = ReplyRequest(seat=seat, messages=tuple(messages))
        seconds = self._deadlines.tool_call
        return (
            await self._connection.call("POST", f"{self._path}/reply", ReplyAnswer, request, seconds=seconds)
        ).messages

    async def reference(self) -> Sequence[Message]:
        """Privileged: the reference solution; empty where there is none."""
        seconds = self._deadlines.setup
        return (await self._connection.call("GET", f"{self._path}/reference", Reference, seconds=seconds)).messages

    async def snapshot(self) -> JsonValue:
        """Privileged: the world's state."""
        seconds = self._deadlines.setup
        return (await self._connection.call("GET", f"{self._path}/state", State, seconds=seconds)).state

    async def seal(self) -> None:
        """Latch: revoke the tokens, cancel calls in flight; learn what the server noted so far."""
        if self._has_status:
            return
        self.is_sealed = True
        seconds = self._deadlines.close
        self._note(await self._connection.call("POST", f"{self._path}/seal", EpisodeStatus, seconds=seconds))

    def _note(self, status: EpisodeStatus) -> None:
        self._has_status = True
        self.answer = status.answer
        self.faults[:] = status.faults
        self.role_calls[:] = status.role_calls

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
        self.is_sealed = True
        seconds = self._deadlines.verify + self._deadlines.close
        verified = await self._connection.call("POST", f"{self._path}/verify", Verified, request, seconds=seconds)
        self._note(verified.status)
        return verified.score

    async def close(self) -> None:
        """Tear down; idempotent.

        Raises:
            TaskError: the environment's clean-up failed, or the server is gone.
        """
        if self._is_closed:
            return
        self._is_closed = self.is_sealed = True
        self.seats = {}
        seconds = self._deadlines.close * 2  # the seal's patience, then the close's
        try:
            self._note(await self._connection.call("DELETE", self._path, EpisodeStatus, seconds=seconds))
        except TaskError:
            raise
        except HubError as error:
            raise TaskError(f"close failed: {error}") from error
