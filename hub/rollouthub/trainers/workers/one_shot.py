"""One rollout, played over an address of its own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rollouthub.engine.run_request import Retries
from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, why_refused
from rollouthub.rollout import Rollout
from rollouthub.trainers.engines.proxied_model import Lane, ProxiedModel
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest, rollout_worker
from rollouthub.trainers.workers.worker_settings import TrainingSettings

_ONCE = Retries(infrastructure=0, verifier=0)
"""A gateway has recorded what a broken attempt said; another one needs a session of its own."""


class Unscored(SupplyError):
    """An episode ended without a reward that may be learnt from; never a reward of zero."""


@dataclass(frozen=True, slots=True)
class Soloist:
    """Plays rollouts, each over a base URL that is given with it."""

    worker: RolloutWorker
    model: ProxiedModel

    @asynccontextmanager
    async def lane(self, wanted: SampleRequest, base_url: str, api_key: str | None) -> AsyncGenerator[Lane]:
        """Open the way to the model for the sample that is played in the block."""
        async with self.model.lane(await self.worker.rollout_id(wanted), base_url, api_key) as lane:
            yield lane

    async def play(self, wanted: SampleRequest, base_url: str, api_key: str | None) -> Rollout:
        """Play one sample over a base URL; its record, scored or not.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        async with self.lane(wanted, base_url, api_key):
            return await self.worker.play(wanted)


def reward_of(rollout: Rollout) -> float:
    """What a rollout is worth to a trainer that has recorded its calls itself.

    Raises:
        Unscored: it must not be learnt from; says why, by name.
    """
    if (refused := why_refused(rollout, "text")) is not None:
        raise Unscored(str(NotTrainable(refused)))
    assert rollout.reward is not None
    return rollout.reward


@asynccontextmanager
async def open_soloist(settings: TrainingSettings, system: str, model: ProxiedModel) -> AsyncGenerator[Soloist]:
    """Open a worker whose episodes are tried once.

    Raises:
        UsageError: as `rollout_worker`.
    """
    request = settings.request.model_copy(update={"retries": _ONCE})
    async with rollout_worker(
        request, directory=settings.run_directory(system), model=model, suspect=settings.training.suspect
    ) as worker:
        yield Soloist(worker, model)
