"""Opening a rollout worker: a run that plays what a trainer asks for."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import Plan, check_roles, make_plan
from rollouthub.engine.pool import Pool
from rollouthub.engine.resumption import accept_changes, used_so_far
from rollouthub.engine.run import facts_of, pool_of, run_bounds, run_parts
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.run_request import RunRequest, as_toml, build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError, HubError, SupplyError, first_error
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.plugins.lock import write_lock
from rollouthub.protocols import Model
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_writer
from rollouthub.trainers.stream.policy_version import Policy
from rollouthub.trainers.stream.rollout_worker import RolloutWorker, Wanted
from rollouthub.trainers.stream.sample_requests import Orders
from rollouthub.trainers.stream.stream_player import StampingSink
from rollouthub.trainers.stream.weight_sync_gate import Gate, GatedModel

__all__ = ["RolloutWorker", "Wanted", "rollout_worker"]


@asynccontextmanager
async def rollout_worker(
    request: RunRequest | None = None,
    *,
    directory: Path | str,
    model: Model | str | None = None,
    policy_version: int = 0,
    resume: bool = False,
    suspect: bool = False,
    credentials: Credentials | None = None,
    **settings: Any,
) -> AsyncGenerator[RolloutWorker]:
    """Open a worker that plays what a trainer asks for.

        async with rollout_worker(environments=("arithmetic",), model="mock/solver", directory="runs/a") as worker:
            rollout = await worker.play(Wanted("train-0", group="step-1"))

    `settings` are those of a run, on top of `request`; `model` may be a model object, such as a `TokenModel` around a
    trainer's own engine. `resume` goes on with the directory's run: what it holds already is not played again. With
    `suspect`, rollouts whose scores their verifier calls suspect come as if it did not, so that they are learnt from.

    Raises (on entry):
        UsageError: a setting does not hold, a model cannot be reached, the directory cannot be used.
    """
    base = {} if request is None else request.model_dump(exclude_unset=True)
    given = model if isinstance(model, str) else None
    if given is not None:
        settings["model"] = given
    engine = None if isinstance(model, str) else model
    if engine is not None and not (hasattr(engine, "name") and hasattr(engine, "generate")):
        raise ConfigError(
            f"model = {engine!r} is no model: give a name, such as 'hosted_vllm/NAME', or an object with `name` and "
            "`async generate(request)`, such as a TokenModel"
        )
    merged = build_request({**base, **settings}, "rollout_worker()")
    if engine is None and merged.model is None and merged.agent is None:
        raise ConfigError(
            "rollout_worker(): no model plays, and rollouts of the reference solution are never learnt from; give a "
            "model: its name, such as 'hosted_vllm/NAME', or an object (or an agent that needs none)"
        )
    plan = make_plan(merged, engine)
    check_roles(plan)
    try:
        async with _opened(
            plan,
            engine,
            Path(directory),
            policy_version,
            resume,
            suspect,
            credentials or load_credentials(os.environ, Path.cwd()),
        ) as worker:
            yield worker
    except BaseExceptionGroup as group:
        raise first_error(group) from group


@asynccontextmanager
async def _opened(
    plan: Plan,
    engine: Model | None,
    directory: Path,
    policy_version: int,
    resume: bool,
    suspect: bool,
    credentials: Credentials,
) -> AsyncGenerator[RolloutWorker]:
    async with open_plan(plan, credentials, engine) as opened:
        stop = StopSignal()
        live = LiveRun(stop)
        limits = run_bounds(plan, stop, live)

        def cancel(rollout_id: str) -> None:
            if (attempt := live.attempts.get(rollout_id)) is not None:
                attempt.cancel()

        orders = Orders(Policy(policy_version), cancel)

        def committed(rollouts: Sequence[Rollout]) -> None:
            if limits is not None:
                limits.committed(rollouts)
            orders.committed(rollouts)

        asked = as_toml(plan.request)
        async with open_writer(
            directory, resolved=opened.resolved, given=asked, resume=resume, on_commit=committed
        ) as writer:
            if writer.resumed:
                accept_changes(directory, writer, opened)
                if limits is not None:
                    limits.used = used_so_far(directory)
            write_lock(opened.lock, directory / LOCK)
            writer.set_plan(None)
            gate = Gate(orders.policy)
            gated = opened if opened.model is None else replace(opened, model=GatedModel(opened.model, gate))
            pool = pool_of(gated, writer.run_id, credentials, stop)
            live.parts = run_parts(gated, writer, pool)
            live.begin(facts_of(gated, directory, writer.run_id, None), pool)
            sink = StampingSink(writer, live, limits, orders, gate)
            is_whole, problem = False, None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_play, pool, orders, sink, writer, stop, limits)
                try:
                    casts = gated.casts(writer.run_id)
                    yield RolloutWorker(directory, gated, writer, orders, gate, casts, suspect=suspect)
                    is_whole = orders.is_idle and not stop.is_set
                except Exception as error:
                    problem = error  # raised below: the run is only interrupted by it, and it arrives as it is
                finally:
                    orders.fail(SupplyError("the rollout worker was closed"))
                    writer.set_status("finished" if is_whole else "interrupted")
                    tasks.cancel_scope.cancel()
            live.end("finished" if is_whole else "interrupted")
    if problem is not None:
        raise problem


async def _play(
    pool: Pool, orders: Orders, sink: StampingSink, writer: RunWriter, stop: StopSignal, limits: RunBounds | None
) -> None:
    """Play what is asked for; whatever ends that, everybody who waits hears of it."""
    try:
        try:
            async with limits.kept() if limits is not None else nullcontext():
                await pool.collect(orders, sink)
            await writer.flush()
        except BaseExceptionGroup as group:
            raise first_error(group) from group
    except HubError as error:
        orders.fail(error)
    except Exception as error:
        orders.fail(error)
        raise  # a bug: the worker's block ends with it
    else:
        orders.fail(SupplyError(f"the run has ended: {stop.reason or 'its pool was closed'}"))
