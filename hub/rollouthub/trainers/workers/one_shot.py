"""Plays rollouts that each reach the model at an address of their own, without retries."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rollouthub.engine.run_request import Retries
from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, why_refused
from rollouthub.rollout import Rollout
from rollouthub.trainers.engines.proxied_model import Lane, ProxiedModel
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest
from rollouthub.trainers.workers.worker_settings import TrainingSettings

_ONCE = Retries(infrastructure=0, verifier=0)


class Unscored(SupplyError):
    """An episode ended without a reward that may be trained on; this is never a reward of zero."""


@dataclass(frozen=True, slots=True)
class OneShotPlayer:
    """Plays rollouts, each over its own base URL."""

    worker: RolloutWorker
    model: ProxiedModel

    @asynccontextmanager
    async def lane(self, wanted: SampleRequest, base_url: str, api_key: str | None) -> AsyncGenerator[Lane]:
        """Open the connection to the model for the sample that is played within the block."""
        async with self.model.lane(await self.worker.rollout_id(wanted), base_url, api_key) as lane:
            yield lane

    async def play(self, wanted: SampleRequest, base_url: str, api_key: str | None) -> Rollout:
        """Play one sample over a base URL. Returns its record, scored or not.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        async with self.lane(wanted, base_url, api_key):
            return await self.worker.play(wanted)


def reward_of(rollout: Rollout) -> float:
    """The rollout's reward, for a trainer that has recorded the model calls itself.

    Raises:
        Unscored: the rollout must not be trained on; the message has the reason.
    """
    if (refused := why_refused(rollout, "text")) is not None:
        raise Unscored(str(NotTrainable(refused)))
    assert rollout.reward is not None
    return rollout.reward


def played_once(settings: TrainingSettings) -> TrainingSettings:
    """The settings without retries of a failed episode: the gateway has already recorded its calls."""
    return settings.model_copy(update={"request": settings.request.model_copy(update={"retries": _ONCE})})


@asynccontextmanager
async def open_one_shot_player(
    settings: TrainingSettings, system: str, model: ProxiedModel
) -> AsyncGenerator[OneShotPlayer]:
    """Open a worker that makes one attempt at each sample.

    Raises:
        UsageError: as `rollout_worker`.
    """
    async with played_once(settings).worker(system, model) as worker:
        yield OneShotPlayer(worker, model)
