"""`NemoGymSteps`: gymnasium-style servers, which answer each response with an observation and a reward."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, cast

from mcp_types import CallToolResult
from pydantic import JsonValue

from rollouthub.environment import Environment
from rollouthub.errors import SandboxOverrun, ToolError, VerifierError
from rollouthub.messages import Message, ToolRequest, user
from rollouthub.models.response_items import input_items
from rollouthub.score import Score, Submission
from rollouthub.tools import text_result
from rollouthub_servers.foreign.deadlines import CALL_SHARE, seconds_left
from rollouthub_servers.nemo_gym.gym_client import GymSession
from rollouthub_servers.nemo_gym.gym_rows import seed_request, whole_response
from rollouthub_servers.nemo_gym.nemo_environment import NemoGym, NemoGymConfig


class NemoGymSteps(NemoGym, Environment[NemoGymConfig]):
    """A gymnasium-style server; the hub sums up its rewards, and the agent never sees them."""

    def __init__(self, task: Any, config: NemoGymConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._rewards: list[Any] = []
        self._is_done = False
        self._broke: str | None = None
        self._opening: str | None = None
        self._calls = 0

    async def _seed(self, session: GymSession) -> None:
        answer = await session.ask("reset", seed_request(self._row), self.config.call_seconds)
        observation = answer.get("observation")
        self._opening = observation if isinstance(observation, str) and observation else None

    def messages(self, seat: str) -> Sequence[Message]:
        """The row's conversation, followed by the server's first observation."""
        opening = list(super().messages(seat))
        return opening if self._opening is None else [*opening, user(self._opening)]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Make one step with the agent's message, and return the observation."""
        said = [message for message in messages if message.role == "assistant"]
        if self._is_done or not said:
            return None
        answer = await self._step(input_items(said[-1:]))
        observation = answer.get("observation")
        if self._is_done:
            return None
        return [user(observation if isinstance(observation, str) else "")]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Make one step with one tool call."""
        if self._is_done:
            raise ToolError("the episode is over")
        self._calls += 1
        request = ToolRequest(id=f"call-{self._calls}", name=name, arguments=json.dumps(arguments))
        answer = await self._step(input_items([Message(role="assistant", tool_requests=(request,))]))
        info = answer.get("info")
        outputs = cast(dict[str, Any], info).get("tool_outputs") if isinstance(info, dict) else None
        texts = [
            str(cast(dict[str, Any], each).get("output", ""))
            for each in (cast(list[Any], outputs) if isinstance(outputs, list) else [])
            if isinstance(each, dict)
        ]
        observation = answer.get("observation")
        shown = "\n".join(texts) or (observation if isinstance(observation, str) else "")
        if self._is_done:
            self.end_episode()
        return text_result(shown)

    async def _step(self, output: list[dict[str, JsonValue]]) -> dict[str, Any]:
        assert self._session is not None
        params = self._row["responses_create_params"]
        request = {**seed_request(self._row), "response": whole_response({"output": output}, params)}
        try:
            answer = await self._session.step(request, min(self.config.call_seconds, seconds_left(CALL_SHARE)))
        except SandboxOverrun as error:  # what was earned before stands, as where an agent stops
            self._is_done, self._broke = True, str(error)
            return {}
        self._rewards.append(answer.get("reward"))
        self._is_done = answer.get("terminated") is True or answer.get("truncated") is True
        return answer

    async def verify(self, submission: Submission) -> Score:
        """The sum of the steps' rewards; a recorded rollout is verified by the server."""
        if self._session is None:
            return await super().verify(submission)
        reward = 0.0  # of an agent that makes no step
        for number, each in enumerate(self._rewards, start=1):
            if isinstance(each, bool) or not isinstance(each, int | float) or not isfinite(each):
                raise VerifierError(f"step {number} of {len(self._rewards)} gave the reward {each!r:.80}, no number")
            reward += each
        suspect = None if self._broke is None else f"a step never ended: {self._broke}"
        return Score(
            reward=reward, suspect=suspect, metrics={"steps": float(len(self._rewards)), "ended": float(self._is_done)}
        )
