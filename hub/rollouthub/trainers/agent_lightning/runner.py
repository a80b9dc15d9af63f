"""agent-lightning 1.0: an agent for its controller, a runner in its controller's place, and events to replay.

Its gateway records every model call by the rollout's own base URL; the hub plays over it and tells the reward.
"""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import anyio

from rollouthub.errors import ConfigError, HubError, UsageError, first_error
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import find_task
from rollouthub.rollout import Rollout
from rollouthub.trainers.agent_lightning.events import replay_events, reward_event
from rollouthub.trainers.engines.gateway_calls import GatewayCalls, GatewayError, open_calls
from rollouthub.trainers.engines.proxied_model import ProxiedModel
from rollouthub.trainers.stream.open_worker import SampleRequest
from rollouthub.trainers.workers.one_shot import Soloist, Unscored, open_soloist, reward_of
from rollouthub.trainers.workers.worker_settings import given_settings, read_settings

logger = logging.getLogger(__name__)

TASK = "ROLLOUTHUB_TASK"
"""The variable that `env_map` fills for `HubAgent`."""
FIRST_ATTEMPT = "0"
_NO_ATTEMPT = "unscored"
"""An attempt without events: what the trainer reads of a rollout that must not be learnt from."""
_POLL_SECONDS = 1.0


def proxied_model() -> ProxiedModel:
    """The policy behind the gateway; its pauses are waited for, within a call's time."""
    return ProxiedModel("hosted_vllm/agent-lightning", max_tries=100)


@dataclass(frozen=True, slots=True)
class Queued:
    """A rollout that waits to be played."""

    rollout_id: str
    task: TaskReference
    is_train: bool
    attempt_id: str = FIRST_ATTEMPT

    @property
    def path(self) -> str:
        """Below the gateway, the base of an OpenAI client."""
        mode = "train" if self.is_train else "val"
        return f"proxy/rollout/{self.rollout_id}/attempt/{self.attempt_id}/mode/{mode}/openai/v1"

    @property
    def events_path(self) -> str:
        """Where its events go."""
        return f"api/rollouts/{self.rollout_id}/attempt/{self.attempt_id}/events"


@dataclass(frozen=True, slots=True)
class Runner:
    """Plays the rollouts that a trainer has queued, in the place of agent-lightning's controller."""

    soloist: Soloist
    calls: GatewayCalls = field(repr=False)
    key: str | None = field(repr=False)

    async def queued(self) -> list[Queued]:
        """What waits. A rollout whose input names no task is failed, with the reason.

        Raises:
            GatewayError: the gateway refused, or cannot be reached.
        """
        found: list[Queued] = []
        for each in await self.calls.call("GET", "api/rollouts", key=self.key, query="state_in=queuing"):
            try:
                given: Any = each["input"]
                task = find_task(cast(dict[str, Any], given) if isinstance(given, dict) else {})
                found.append(Queued(each["rollout_id"], task, bool(each.get("is_train", True))))
            except ConfigError as error:
                await self._fail(each["rollout_id"], str(error))
        return found

    async def play(self, queued: Queued) -> Rollout | None:
        """Play one, and tell its reward, or that it failed and has none; None where it could not be begun.

        Raises:
            GatewayError: the gateway refused, or cannot be reached.
            SupplyError, StoreError: the run has ended.
        """
        if not await self._begin(queued):
            return None
        wanted = SampleRequest(queued.task.task_id, queued.task.environment, queued.task.split, group=uuid4().hex)
        try:
            rollout = await self.soloist.play(wanted, f"{self.calls.url}/{queued.path}", self.key)
        except UsageError as error:  # there is no such task
            await self._fail(queued.rollout_id, str(error))
            return None
        except HubError as error:
            await self._fail(queued.rollout_id, str(error))
            raise
        try:
            reward = reward_of(rollout)
        except Unscored as error:
            await self._fail(queued.rollout_id, str(error))
            return rollout
        await self.calls.call("POST", queued.events_path, reward_event(reward), key=self.key)
        await self._patch(queued.rollout_id, {"state": "succeeded"})
        return rollout

    async def run(self, *, concurrency: int = 32, poll_seconds: float = _POLL_SECONDS) -> None:
        """Play whatever is queued, until cancelled.

        Raises:
            GatewayError: the gateway refused, or cannot be reached.
            SupplyError, StoreError: the run has ended.
        """
        room, begun = anyio.Semaphore(concurrency), set[str]()

        async def play(queued: Queued) -> None:
            try:
                await self.play(queued)
            except GatewayError as error:
                if error.status != 404:
                    raise
                logger.info("agent-lightning has dropped rollout %s", queued.rollout_id)
            finally:
                begun.discard(queued.rollout_id)
                room.release()

        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    for queued in await self.queued():
                        if queued.rollout_id not in begun:
                            await room.acquire()
                            begun.add(queued.rollout_id)
                            tasks.start_soon(play, queued)
                    await anyio.sleep(poll_seconds)
        except BaseExceptionGroup as group:
            raise first_error(group) from group

    async def _begin(self, queued: Queued) -> bool:
        try:
            await self._patch(queued.rollout_id, {"state": "running", "last_attempt_id": queued.attempt_id})
        except GatewayError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def _fail(self, rollout_id: str, reason: str) -> None:
        logger.warning("agent-lightning's rollout %s has no reward: %s", rollout_id, reason)
        await self._patch(
            rollout_id, {"state": "failed", "error_message": reason[:2000], "last_attempt_id": _NO_ATTEMPT}
        )

    async def _patch(self, rollout_id: str, status: dict[str, Any]) -> None:
        await self.calls.call("PATCH", f"api/rollouts/{rollout_id}", {"status": status}, key=self.key)


@asynccontextmanager
async def open_runner(
    gateway: str,
    key: str | None,
    settings: Mapping[str, Any] | str | Path | None = None,
    *,
    patience_seconds: float = 600.0,
) -> AsyncGenerator[Runner]:
    """Open a runner; `patience_seconds` is how long a paused or absent gateway is waited for.

    Raises:
        UsageError: a setting does not hold, as `rollout_worker`.
    """
    found = given_settings(settings)
    async with (
        open_calls(gateway, patience_seconds=patience_seconds) as calls,
        open_soloist(found, "agent-lightning", proxied_model()) as soloist,
    ):
        yield Runner(soloist, calls, key)


class HubAgent:
    """The agent class of a rollout's `config.local.agent_class`: its process plays one task and tells the reward.

    `env_map` says where its task stands: `{"ROLLOUTHUB_TASK": "input.rollouthub"}`. An episode that must not be learnt
    from raises, so that the controller marks the rollout failed; it has no reward then, and its events are set aside.
    """

    async def run(self) -> None:
        """Play the task that the environment variables name.

        Raises:
            UsageError: a variable is missing, or names nothing.
            Unscored: it must not be learnt from.
        """
        base_url, events_url = _variable("AGL_OPENAI_BASE_URL"), _variable("AGL_EVENT_URL")
        key, task = os.environ.get("AGL_KEY") or None, TaskReference.parse(_variable(TASK))
        # `…/api/rollouts/RID/attempt/AID/events`
        rollout_path = urlsplit(events_url).path.lstrip("/").partition("/attempt/")[0]
        parts = urlsplit(events_url)
        wanted = SampleRequest(task.task_id, task.environment, task.split, group=uuid4().hex)
        async with (
            open_calls(f"{parts.scheme}://{parts.netloc}", patience_seconds=600.0) as calls,
            open_soloist(read_settings(), "agent-lightning", proxied_model()) as soloist,
        ):
            rollout = await soloist.play(wanted, base_url, key)
            try:
                reward = reward_of(rollout)
            except Unscored as error:
                status = {"error_message": str(error)[:2000], "last_attempt_id": _NO_ATTEMPT}
                await calls.call("PATCH", rollout_path, {"status": status}, key=key)
                raise
            await calls.call("POST", parts.path.lstrip("/"), reward_event(reward), key=key)


async def post_replay(calls: GatewayCalls, key: str | None, rollout: Rollout, *, name: str | None = None) -> str:
    """Give a recorded rollout to agent-lightning's server as one that succeeded; its id there.

    Raises:
        NotTrainable: it must not be learnt from.
        GatewayError: the server refused, or cannot be reached.
    """
    events, task = replay_events(rollout), TaskReference.of(rollout)
    rollout_id = name or rollout.rollout_id
    body = [{"rollout_id": rollout_id, "input": {"data_id": rollout.group_id, "rollouthub": str(task)}}]
    await calls.call("POST", "api/rollouts", body, key=key)
    for status in ({"state": "running", "last_attempt_id": FIRST_ATTEMPT}, {"state": "succeeded"}):
        if status["state"] == "succeeded":
            path = f"api/rollouts/{rollout_id}/attempt/{FIRST_ATTEMPT}/events"
            for event in events:
                await calls.call("POST", path, event, key=key)
        await calls.call("PATCH", f"api/rollouts/{rollout_id}", {"status": status}, key=key)
    return rollout_id


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigError(f"{name} is not set; agent-lightning's controller sets it, and {TASK} through env_map")
    return value
