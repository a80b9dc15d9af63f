"""AReaL's proxy: episodes of the hub's own loop, whose model calls AReaL records, and the reward told at the end."""

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
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest
from rollouthub.trainers.workers.in_loop import KeptWorker
from rollouthub.trainers.workers.one_shot import Soloist, Unscored, open_soloist, reward_of
from rollouthub.trainers.workers.worker_settings import TrainingSettings, given_settings

logger = logging.getLogger(__name__)

_END_SECONDS = 60.0
OVERFLOW = "exceeds max_total_tokens"
"""What AReaL says, with HTTP 500, of a conversation that is too long."""


def proxied_model() -> ProxiedModel:
    """The policy behind the proxy, whatever it is called."""
    return ProxiedModel("hosted_vllm/areal", max_tries=4, overflow=OVERFLOW)


class ProxyAgent:
    """AReaL's black-box workflow: `async run(data, **extra)` plays a task through the proxy and gives its reward.

    An episode without a reward that may be learnt from raises, and AReaL rejects the trajectory.
    """

    def __init__(self, settings: Mapping[str, Any] | str | Path | None = None) -> None:
        """`settings` are a run's, as a mapping or a TOML file (by default the one that `ROLLOUTHUB_TRAINING` names).

        Raises:
            ConfigError: a setting does not hold.
        """
        found = given_settings(settings)
        self._given, self._model = settings, proxied_model()
        self._worker = KeptWorker(lambda: _worker(found, self._model))

    def __reduce__(self) -> tuple[Any, ...]:
        # In AReaL's mode `subproc` each run is pickled into a process of its own.
        return ProxyAgent, (self._given,)

    async def run(self, data: Mapping[str, Any], **extra: Any) -> float:
        """Play the task that a row of data names.

        Raises:
            ConfigError, UnknownNameError: the row names no task, or AReaL no proxy.
            Unscored: it must not be learnt from.
        """
        base_url = extra.get("base_url") or os.environ.get("OPENAI_BASE_URL")
        api_key = extra.get("api_key") or os.environ.get("OPENAI_API_KEY")
        if not base_url:
            raise ConfigError("AReaL gave no base_url of its proxy, and OPENAI_BASE_URL is not set")
        soloist = Soloist(await self._worker.get(), self._model)
        return reward_of(await soloist.play(_wanted(find_task(data)), base_url, api_key))

    async def close(self) -> None:
        """End the run before the event loop does."""
        await self._worker.close()


@dataclass(frozen=True, slots=True)
class OnlineSession:
    """A session at AReaL's gateway."""

    session_id: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OnlinePlayer:
    """Plays tasks through AReaL's gateway in its mode `online`: each a session, with its reward at the end."""

    soloist: Soloist
    calls: GatewayCalls = field(repr=False)
    admin_key: str = field(repr=False)

    async def play(self, task: TaskReference) -> Rollout:
        """Play one task; waits until AReaL has room for a session, as its bound on staleness wants.

        A session whose episode must not be learnt from is never ended, since AReaL would take it for a reward of
        zero: it times out there, and is rejected. One without any call is ended at once; AReaL rejects an empty one.

        Raises:
            GatewayError: AReaL refused, or has had no room for longer than the patience.
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        wanted = _wanted(task)
        session = await self._start(str(task.task_id))
        async with self.soloist.lane(wanted, self.calls.url, session.api_key) as lane:
            try:
                rollout = await self.soloist.worker.play(wanted)
            except BaseException:
                if not lane.calls:
                    with anyio.move_on_after(_END_SECONDS, shield=True):
                        await self._end(session)
                raise
            called = lane.calls
        try:
            reward = reward_of(rollout)
        except Unscored as error:
            logger.warning("session %s is left to AReaL's timeout: %s", session.session_id, error)
            if not called:
                await self._end(session)
            return rollout
        if called:
            await self._post("rl/set_reward", session, {"interaction_id": None, "reward": reward})
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
    """Open a player at AReaL's gateway; `patience_seconds` is how long a session is waited for.

    Raises:
        UsageError: a setting does not hold, as `rollout_worker`.
    """
    found = given_settings(settings)
    async with (
        open_calls(gateway, patience_seconds=patience_seconds) as calls,
        open_soloist(found, "areal-online", proxied_model()) as soloist,
    ):
        yield OnlinePlayer(soloist, calls, admin_key)


@asynccontextmanager
async def _worker(settings: TrainingSettings, model: ProxiedModel) -> AsyncGenerator[RolloutWorker]:
    async with open_soloist(settings, "areal", model) as soloist:
        yield soloist.worker


def _wanted(task: TaskReference) -> SampleRequest:
    return SampleRequest(task.task_id, task.environment, task.split, group=uuid4().hex)
