"""agent-lightning 1.0: an agent class for its controller, a runner that replaces the controller, and replay of recorded
events.

agent-lightning's gateway records every model call under the base URL of its rollout; the hub plays episodes through
that URL and then reports the reward.
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

from rollouthub.errors import ConfigError, HubError, UsageError, raise_first_error
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import find_task
from rollouthub.rollout import Rollout
from rollouthub.trainers.agent_lightning.events import replay_events, reward_event
from rollouthub.trainers.engines.gateway_calls import GatewayCalls, GatewayError, open_calls
from rollouthub.trainers.engines.proxied_model import ProxiedModel
from rollouthub.trainers.stream.open_worker import SampleRequest
from rollouthub.trainers.workers.one_shot import OneShotPlayer, Unscored, open_one_shot_player, reward_of
from rollouthub.trainers.workers.worker_settings import given_settings, read_settings

logger = logging.getLogger(__name__)

TASK = "ROLLOUTHUB_TASK"
"""Environment variable with the task's reference for `HubAgent`, to be filled by `env_map`."""
FIRST_ATTEMPT = "0"
_NO_ATTEMPT = "unscored"
"""An attempt id that has no events. It is set as the last attempt of a rollout that must not be trained on, so that
the trainer reads nothing.
"""
_POLL_SECONDS = 1.0


def proxied_model() -> ProxiedModel:
    """The policy as reached through agent-lightning's gateway. A call is tried up to 100 times, which outlasts
    pauses of the gateway.
    """
    return ProxiedModel("hosted_vllm/agent-lightning", max_tries=100)


@dataclass(frozen=True, slots=True)
class Queued:
    """A rollout in agent-lightning's queue."""

    rollout_id: str
    task: TaskReference
    is_train: bool
    attempt_id: str = FIRST_ATTEMPT

    @property
    def path(self) -> str:
        """Path of the OpenAI-compatible API for this rollout, relative to the gateway's URL."""
        mode = "train" if self.is_train else "val"
        return f"proxy/rollout/{self.rollout_id}/attempt/{self.attempt_id}/mode/{mode}/openai/v1"

    @property
    def events_path(self) -> str:
        """The path that the rollout's events are posted to."""
        return f"api/rollouts/{self.rollout_id}/attempt/{self.attempt_id}/events"


@dataclass(frozen=True, slots=True)
class Runner:
    """Plays the rollouts that a trainer has queued, in place of agent-lightning's controller."""

    one_shot: OneShotPlayer
    calls: GatewayCalls = field(repr=False)
    key: str | None = field(repr=False)

    async def queued(self) -> list[Queued]:
        """The rollouts that wait in agent-lightning's queue. A rollout whose input names no task is marked failed, with
        the reason.

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
        """Play one queued rollout and report its reward, or mark it failed if it has none that may be trained on.

        Returns None if agent-lightning no longer offers the rollout, or if its task or settings are invalid.

        Raises:
            GatewayError: the gateway refused, or cannot be reached.
            SupplyError, StoreError: the run has ended.
        """
        if not await self._begin(queued):
            return None
        wanted = SampleRequest(queued.task.task_id, queued.task.environment, queued.task.split, group=uuid4().hex)
        try:
            rollout, _ = await self.one_shot.play(wanted, f"{self.calls.url}/{queued.path}", self.key)
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
        """Play queued rollouts as they appear, up to `concurrency` at once, until cancelled. The queue is polled every
        `poll_seconds`.

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

        async with raise_first_error(), anyio.create_task_group() as tasks:
            while True:
                for queued in await self.queued():
                    if queued.rollout_id not in begun:
                        await room.acquire()
                        begun.add(queued.rollout_id)
                        tasks.start_soon(play, queued)
                await anyio.sleep(poll_seconds)

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
    """Open a runner on the gateway at URL `gateway`. A call to a paused or unreachable gateway is retried for
    `patience_seconds`.

    Raises:
        UsageError: a setting is invalid, as for `rollout_worker`.
    """
    found = given_settings(settings)
    async with (
        open_calls(gateway, patience_seconds=patience_seconds) as calls,
        open_one_shot_player(found, "agent-lightning", proxied_model()) as one_shot,
    ):
        yield Runner(one_shot, calls, key)


class HubAgent:
    """The agent class for a rollout's `config.local.agent_class`: its process plays one task and reports the reward.

    The environment variable `ROLLOUTHUB_TASK` names the task; fill it by `env_map`: `{"ROLLOUTHUB_TASK":
    "input.rollouthub"}`. If the episode must not be trained on, `run` raises: the controller then marks the rollout
    failed, without a reward, and the trainer ignores its events.
    """

    async def run(self) -> None:
        """Play the task that `ROLLOUTHUB_TASK` names and report its reward.

        Raises:
            UsageError: a variable is missing, or its value names no task.
            Unscored: the episode has no reward that may be trained on.
        """
        base_url, events_url = _variable("AGL_OPENAI_BASE_URL"), _variable("AGL_EVENT_URL")
        key, task = os.environ.get("AGL_KEY") or None, TaskReference.parse(_variable(TASK))
        # `…/api/rollouts/RID/attempt/AID/events`
        rollout_path = urlsplit(events_url).path.lstrip("/").partition("/attempt/")[0]
        parts = urlsplit(events_url)
        wanted = SampleRequest(task.task_id, task.environment, task.split, group=uuid4().hex)
        async with (
            open_calls(f"{parts.scheme}://{parts.netloc}", patience_seconds=600.0) as calls,
            open_one_shot_player(read_settings(), "agent-lightning", proxied_model()) as one_shot,
        ):
            rollout, _ = await one_shot.play(wanted, base_url, key)
            try:
                reward = reward_of(rollout)
            except Unscored as error:
                status = {"error_message": str(error)[:2000], "last_attempt_id": _NO_ATTEMPT}
                await calls.call("PATCH", rollout_path, {"status": status}, key=key)
                raise
            await calls.call("POST", parts.path.lstrip("/"), reward_event(reward), key=key)


async def post_replay(calls: GatewayCalls, key: str | None, rollout: Rollout, *, name: str | None = None) -> str:
    """Post a recorded rollout to agent-lightning's server as a succeeded rollout. Returns its id on that server.

    Raises:
        NotTrainable: the rollout cannot be replayed, as for `replay_events`.
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
