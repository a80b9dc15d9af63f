"""AReaL's proxy: the hub runs its own agent loop, AReaL records the model calls, and the hub reports the reward at
the end.
"""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import find_task
from rollouthub.rollout import Rollout
from rollouthub.trainers.engines.gateway_calls import GatewayCalls, open_calls
from rollouthub.trainers.engines.proxied_model import ProxiedModel
from rollouthub.trainers.stream.open_worker import SampleRequest
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.one_shot import (
    OneShotPlayer,
    Unscored,
    call_rewards,
    open_one_shot_player,
    played_once,
    reward_of,
)
from rollouthub.trainers.workers.worker_settings import given_settings

logger = logging.getLogger(__name__)

_END_SECONDS = 60.0
OVERFLOW = "exceeds max_total_tokens"
"""Text by which AReaL's HTTP 500 answer is recognised as "the conversation is too long"."""


def proxied_model() -> ProxiedModel:
    """The policy as reached through AReaL's proxy, recorded as `hosted_vllm/areal`."""
    return ProxiedModel("hosted_vllm/areal", max_tries=4, overflow=OVERFLOW)


class ProxyAgent:
    """AReaL's black-box workflow: `async run(data, **extra)` plays a task through the proxy and returns its reward.

    If the episode has no reward that may be trained on, `run` raises, and AReaL rejects the trajectory.
    """

    def __init__(self, settings: Mapping[str, Any] | str | Path | None = None) -> None:
        """`settings` are a run's settings: a mapping, or a TOML file's path. Default: the file that
        `ROLLOUTHUB_TRAINING` names.

        Raises:
            ConfigError: a setting is invalid.
        """
        found = given_settings(settings)
        self._given, self._model = settings, proxied_model()
        self._worker = KeptWorker(lambda: played_once(found).worker("areal", self._model, takes_seat=False))

    def __reduce__(self) -> tuple[Any, ...]:
        # In AReaL's mode `subproc` each run is pickled into a process of its own.
        return ProxyAgent, (self._given,)

    async def run(self, data: Mapping[str, Any], **extra: Any) -> float | dict[str, float]:
        """Play the task that the data row names and return its reward; if the verifier rewarded turns, the reward of
        each by the id of its answer, with the verdict in the last.

        Raises:
            ConfigError, UnknownNameError: the row names no known task, or AReaL gave no address of its proxy.
            Unscored: the episode has no reward that may be trained on.
        """
        base_url = extra.get("base_url") or os.environ.get("OPENAI_BASE_URL")
        api_key = extra.get("api_key") or os.environ.get("OPENAI_API_KEY")
        if not base_url:
            raise ConfigError("AReaL gave no base_url of its proxy, and OPENAI_BASE_URL is not set")
        one_shot = OneShotPlayer(await self._worker.get(), self._model)
        rollout, lane = await one_shot.play(_wanted(find_task(data)), base_url, api_key)
        return call_rewards(rollout, lane.replies) or reward_of(rollout)

    async def close(self) -> None:
        """Close the worker and its run. Call it before the event loop ends."""
        await self._worker.close()


@dataclass(frozen=True, slots=True)
class OnlineSession:
    """A session at AReaL's gateway: its id, and the key that model calls of this session use."""

    session_id: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OnlinePlayer:
    """Plays tasks through AReaL's gateway in its `online` mode: one session for each task, its reward reported at
    the end.
    """

    one_shot: OneShotPlayer
    calls: GatewayCalls = field(repr=False)
    admin_key: str = field(repr=False)

    async def play(self, task: TaskReference) -> Rollout:
        """Play one task, after AReaL has granted a session; AReaL limits sessions by its staleness bound.

        If the episode must not be trained on, its session is left open until AReaL's timeout rejects it: ending it
        would give a reward of zero. A session without any model call is ended at once, because AReaL rejects an empty
        session.

        Raises:
            GatewayError: AReaL refused, or granted no session within the patience.
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        wanted = _wanted(task)
        session = await self._start(str(task.task_id))
        async with self.one_shot.lane(wanted, self.calls.url, session.api_key) as lane:
            try:
                rollout = await self.one_shot.worker.play(wanted)
            except BaseException:
                if not lane.replies:
                    with anyio.move_on_after(_END_SECONDS, shield=True):
                        await self._end(session)
                raise
            called = lane.replies
        try:
            rewards: Mapping[str | None, float] = {**call_rewards(rollout, called)} or {None: reward_of(rollout)}
        except Unscored as error:
            logger.warning("session %s is left to AReaL's timeout: %s", session.session_id, error)
            if not called:
                await self._end(session)
            return rollout
        for interaction, reward in rewards.items() if called else ():
            await self._post("rl/set_reward", session, {"interaction_id": interaction, "reward": reward})
        await self._end(session)
        return rollout

    async def _start(self, task_id: str) -> OnlineSession:
        answer = await self.calls.call("POST", "rl/start_session", {"task_id": task_id}, key=self.admin_key)
        return OnlineSession(answer["session_id"], answer["api_key"])

    async def _end(self, session: OnlineSession) -> None:
        await self._post("rl/end_session", session, {})

    async def _post(self, path: str, session: OnlineSession, body: dict[str, Any]) -> None:
        await self.calls.call("POST", path, body, key=session.api_key)


@asynccontextmanager
async def online_player(
    gateway: str,
    admin_key: str,
    settings: Mapping[str, Any] | str | Path | None = None,
    *,
    patience_seconds: float = 3600.0,
) -> AsyncGenerator[OnlinePlayer]:
    """Open a player at AReaL's gateway; a session is waited for up to `patience_seconds`.

    Raises:
        UsageError: a setting is invalid, as for `rollout_worker`.
    """
    found = given_settings(settings)
    async with (
        open_calls(gateway, patience_seconds=patience_seconds) as calls,
        open_one_shot_player(found, "areal-online", proxied_model()) as one_shot,
    ):
        yield OnlinePlayer(one_shot, calls, admin_key)


def _wanted(task: TaskReference) -> SampleRequest:
    return SampleRequest(task.task_id, task.environment, task.split, group=uuid4().hex)
