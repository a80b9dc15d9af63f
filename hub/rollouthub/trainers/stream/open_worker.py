"""Opens a rollout worker: a run that plays the samples that a trainer requests."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from rollouthub.engine.group_scoring import group_scoring
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.pool import Pool
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest, as_toml
from rollouthub.engine.session import Session, open_session
from rollouthub.errors import ConfigError, HubError, SupplyError, raise_first_error
from rollouthub.generation import Model
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.trainers.stream.given_model import with_model
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_worker import RolloutWorker, SampleRequest
from rollouthub.trainers.stream.sample_requests import SampleRequests
from rollouthub.trainers.stream.stream_player import StampingSink
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate, with_gated_model

__all__ = ["RolloutWorker", "SampleRequest", "rollout_worker"]


@asynccontextmanager
async def rollout_worker(
    request: RunRequest | None = None,
    *,
    directory: Path | str,
    model: Model | str | None = None,
    policy_version: int = 0,
    resume: bool = False,
    suspect: bool = False,
    no_groups: str | None = None,
    credentials: Credentials | None = None,
    **settings: Any,
) -> AsyncGenerator[RolloutWorker]:
    """Open a worker that plays the samples that a trainer requests.

        async with rollout_worker(environments=("arithmetic",), model="mock/solver", directory="runs/a") as worker:
            rollout = await worker.play(SampleRequest("train-0", group="step-1"))

    `settings` are those of a run and override `request`; `model` may be a model object, such as a `TokenModel` around a
    trainer's own engine. `resume` continues the run in `directory`: samples that have a result there are not played
    again. With `suspect`, a rollout whose score its verifier calls suspect is returned without that mark, so that it is
    trained on. `no_groups` is why the caller cannot ask for whole groups at once, if it cannot: environments that score
    groups are then refused with these words.

    Raises (on entry):
        UsageError: a setting is invalid, a model cannot be reached, the directory cannot be used.
    """
    plan, engine = _planned(request, model, settings)
    problem: Exception | None = None
    async with open_session(
        plan,
        Path(directory),
        given=as_toml(plan.request),
        resume=resume,
        credentials=credentials or load_credentials(os.environ, Path.cwd()),
        model=engine,
        scores_groups=True,
    ) as session:
        _check_groups(session, no_groups)
        orders = SampleRequests(PolicyVersions(policy_version), partial(_cancel, session.live))
        session.on_commit.append(orders.committed)
        gate = WeightSyncGate(orders.policy)
        gated = with_gated_model(session.opened, gate)
        pool = session.pool(gated)
        session.begin(pool, gated)
        is_whole = False
        async with anyio.create_task_group() as tasks:
            if (scoring := group_scoring(session, tasks)) is not None:
                orders.withdrawn = scoring.withdrawn
            sink = StampingSink(session.writer, session.live, session.bounds, orders, gate, scoring)
            tasks.start_soon(_play, pool, orders, sink, session)
            try:
                yield RolloutWorker(session, gated, orders, gate, suspect=suspect, scoring=scoring)
                is_whole = orders.is_idle and not session.stop.is_set
            except Exception as error:
                problem = error  # raised below: the run is only interrupted by it, and it arrives as it is
            finally:
                _close(session, orders, is_whole=is_whole)
                tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem


def _close(session: Session, orders: SampleRequests, *, is_whole: bool) -> None:
    """Refuse what is still asked for, and record how the run ended."""
    orders.fail(SupplyError("the rollout worker was closed"))
    session.ending = "finished" if is_whole else "interrupted"
    session.writer.set_status(session.ending)


def _check_groups(session: Session, no_groups: str | None) -> None:
    """Refuse environments that score groups, if the caller cannot ask for whole groups.

    Raises:
        ConfigError: there is one.
    """
    for environment in session.opened.environments if no_groups is not None else ():
        info = environment.host.info
        if info.scores_groups:
            raise ConfigError(f"environment {info.name!r} scores all samples of a task together, and {no_groups}")


def _planned(
    request: RunRequest | None, model: Model | str | None, settings: dict[str, Any]
) -> tuple[Plan, Model | None]:
    """The plan of the merged settings, and the model if it is an object.

    Raises:
        ConfigError: a setting is invalid, or there is no model or agent to play.
    """
    merged, engine = with_model(request, model, settings, "rollout_worker()")
    if engine is None and merged.model is None and merged.agent is None:
        raise ConfigError(
            "rollout_worker(): no model plays, and rollouts of the reference solution are never learnt from; give a "
            "model: its name, such as 'hosted_vllm/NAME', or an object (or an agent that needs none)"
        )
    return make_plan(merged, engine), engine


def _cancel(live: LiveRun, rollout_id: str) -> None:
    if (attempt := live.attempts.get(rollout_id)) is not None:
        attempt.cancel()


async def _play(pool: Pool, orders: SampleRequests, sink: StampingSink, session: Session) -> None:
    """Play requested samples until the run ends; then every waiting caller gets the error that ended it."""
    try:
        async with raise_first_error():
            async with session.bounded():
                await pool.play(orders, sink)
            await session.writer.flush()
    except HubError as error:
        orders.fail(error)
    except Exception as error:
        orders.fail(error)
        raise  # a bug: the worker's block ends with it
    else:
        orders.fail(SupplyError(f"the run has ended: {session.stop.reason or 'its pool was closed'}"))
