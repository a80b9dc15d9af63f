"""Plays rollouts that each reach the model at an address of their own, without retries."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rollouthub.engine.run_request import Retries
from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, one_reward, turn_rewards, why_refused
from rollouthub.generation import ModelReply
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

    async def play(self, wanted: SampleRequest, base_url: str, api_key: str | None) -> tuple[Rollout, Lane]:
        """Play one sample over a base URL. Returns its record, scored or not, and the lane with the answers.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        async with self.lane(wanted, base_url, api_key) as lane:
            return await self.worker.play(wanted), lane


def reward_of(rollout: Rollout) -> float:
    """The rollout's reward, for a trainer that has recorded the model calls itself.

    Raises:
        Unscored: the rollout must not be trained on, or its trained seats earned different rewards; the message has the
        reason.
    """
    try:
        if (refused := why_refused(rollout, "text")) is not None:
            raise NotTrainable(refused)
        return one_reward(rollout)
    except NotTrainable as error:
        raise Unscored(str(error)) from None


def call_rewards(rollout: Rollout, replies: Sequence[ModelReply]) -> dict[str, float]:
    """The own reward of each turn by the id of its answer, the verdict added at the last; empty if the verifier
    rewarded no turns.

    Raises:
        Unscored: the rollout must not be trained on; or a turn was rewarded, and the gateway gave no id of its answer,
        or several seats are trained, whose turns the gateway would add up.
    """
    reward_of(rollout)
    assert rollout.score is not None
    if not rollout.score.span_rewards and all(turn.reward is None for turn in rollout.turns):
        return {}
    if len(rollout.policy_seats) > 1:
        seats = ", ".join(rollout.policy_seats)
        raise Unscored(
            f"rollout {rollout.rollout_id}: its turns have rewards, which the gateway adds up over the seats {seats}; "
            "give all but one models of their own"
        )
    rewards, found, left = turn_rewards(rollout), dict[str, float](), iter(replies)
    for turn in rollout.policy_turns:
        name = next((reply.response_id for reply in left if reply.message == turn.response), None)
        if name is None:
            raise Unscored(f"rollout {rollout.rollout_id}: turn {turn.index} has a reward, and no answer with an id")
        found[name] = rewards[turn.index]
    return found


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
    async with played_once(settings).worker(system, model, takes_seat=False) as worker:
        yield OneShotPlayer(worker, model)
