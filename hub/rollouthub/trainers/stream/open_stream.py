"""Opens a supply: a run whose rollouts are handed out while it plays."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import anyio
from anyio import to_thread

from rollouthub.engine.group_scoring import group_scoring
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.run_request import RunRequest, as_toml
from rollouthub.engine.session import Session, open_session
from rollouthub.errors import ConfigError, RunDirectoryError
from rollouthub.generation import Model
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.rollout import Rollout
from rollouthub.settings import check_settings, takes_settings
from rollouthub.trainers.stream.curriculum import rates_of_run
from rollouthub.trainers.stream.generation_control import GenerationControl
from rollouthub.trainers.stream.given_model import with_model
from rollouthub.trainers.stream.group_filters import GroupFilter
from rollouthub.trainers.stream.group_tracker import GroupTracker
from rollouthub.trainers.stream.ledger import Ledger, PassRate
from rollouthub.trainers.stream.lora_adapters import check_adapters
from rollouthub.trainers.stream.opponents import Opponents
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.stream_player import Breaker, StampingSink, StreamPlayer
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules, bounds_of
from rollouthub.trainers.stream.stream_source import Feeder, StreamSource
from rollouthub.trainers.stream.supply import POLICY_VERSION, Supply
from rollouthub.trainers.stream.supply_state import SupplyState, read_state
from rollouthub.trainers.stream.trainer_log import TrainerLog
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate, with_gated_model

logger = logging.getLogger(__name__)

GROUPS = "groups"
_ORIGIN = "stream_rollouts()"


@overload
def stream_rollouts(
    request: RunRequest | None = None,
    *,
    directory: Path | str,
    model: Model | str | None = None,
    groups: Literal[True] = True,
    control: GenerationControl | None = None,
    filters: Sequence[GroupFilter] = (),
    policy_version: int | None = None,
    state: Mapping[str, Any] | None = None,
    resume: bool = False,
    credentials: Credentials | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[Supply[RolloutGroup]]: ...


@overload
def stream_rollouts(
    request: RunRequest | None = None,
    *,
    directory: Path | str,
    model: Model | str | None = None,
    groups: Literal[False],
    control: GenerationControl | None = None,
    filters: Sequence[GroupFilter] = (),
    policy_version: int | None = None,
    state: Mapping[str, Any] | None = None,
    resume: bool = False,
    credentials: Credentials | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[Supply[Rollout]]: ...


@takes_settings(SupplyRules, RunRequest)
def stream_rollouts(
    request: RunRequest | None = None,
    *,
    directory: Path | str,
    model: Model | str | None = None,
    groups: bool = True,
    control: GenerationControl | None = None,
    filters: Sequence[GroupFilter] = (),
    policy_version: int | None = None,
    state: Mapping[str, Any] | None = None,
    resume: bool = False,
    credentials: Credentials | None = None,
    **settings: Any,
) -> Any:
    """Supply a trainer with scored rollouts while they are played.

        asked = rollouthub.stream_rollouts(environments=("arithmetic",), model="mock/solver", directory="runs/a")
        async with asked as supply:
            async for group in supply:
                ...

    `settings` are those of a run (`RunRequest`: environments, model, repeats …), which override `request`, and those of
    the supply (`SupplyRules`: batch, max_staleness, epochs, drop_constant …); docs/settings.md lists both. `model` may
    be a model object, such as a `TokenModel` around an engine in this process. Each of
    `filters` returns whether a group is kept; drops are counted by the filter's name. `resume` continues the run in
    `directory`: finished groups that were not handed out come first. `policy_version` is the version of the weights
    that generate at the start. If a resumed supply is given a lower version than it had reached, such as a
    checkpoint's, it hands out again all groups handed out since that version. `state` is what `Supply.state` returned
    for a checkpoint: a supply in a new directory goes on with it; a resumed one knows it better. `credentials` default
    to the process's own. Episodes in flight when the block is left are cancelled.

    Raises (on entry):
        UsageError: a setting is invalid, a model cannot be reached, the directory cannot be used.
    """
    rules, request, engine = _sorted_out(request, model, settings, groups)
    if filters and not groups:
        raise ConfigError("filters are about groups, and groups = False hands out single rollouts")
    return _opened(
        make_plan(request, engine),
        engine,
        rules,
        bounds_of(rules, request),
        Path(directory),
        control,
        tuple(filters),
        policy_version,
        None if state is None else read_state(state),
        resume,
        credentials or load_credentials(os.environ, Path.cwd()),
    )


def _sorted_out(
    request: RunRequest | None, model: Model | str | None, settings: Mapping[str, Any], groups: bool
) -> tuple[SupplyRules, RunRequest, Model | None]:
    """Separate the supply's settings from the run's, and a model object from both.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    ours = {name: value for name, value in settings.items() if name in SupplyRules.model_fields}
    theirs = {name: value for name, value in settings.items() if name not in ours}
    rules = check_settings(SupplyRules, {**ours, "groups": groups}, _ORIGIN)
    merged, engine = with_model(request, model, theirs, _ORIGIN, SupplyRules.model_fields)
    if set(merged.track) - {"tensorboard"}:
        raise ConfigError(
            f"{_ORIGIN} draws no curves: leave track out; `supply.stats` counts, and `hub watch` and `hub report` read "
            "the run while it plays"
        )
    if merged.metrics is not None:
        from rollouthub.telemetry.metrics.metrics_endpoint import metrics_address  # as below

        metrics_address(merged.metrics)
    return rules, merged, engine


@asynccontextmanager
async def _opened(
    plan: Plan,
    model: Model | None,
    rules: SupplyRules,
    bounds: Bounds,
    directory: Path,
    control: GenerationControl | None,
    filters: Sequence[GroupFilter],
    policy_version: int | None,
    state: SupplyState | None,
    resume: bool,
    credentials: Credentials,
) -> AsyncGenerator[Supply[Any]]:
    problem: Exception | None = None
    check_adapters(control, plan.request.pool)
    async with open_session(
        plan,
        directory,
        given=as_toml(plan.request),
        resume=resume,
        credentials=credentials,
        model=model,
        tasks="checked",
        scores_groups=rules.groups,
    ) as session:
        writer = session.writer
        async with Ledger.open(directory, resume=writer.resumed) as ledger:
            begun_with = None if writer.resumed else state
            tracker = await _tracker(ledger, directory, rules, bounds, filters, policy_version, begun_with)
            if not writer.resumed:
                await _begin_curriculum(tracker, ledger, rules, state)
            session.on_commit.append(tracker.committed)
            opened = session.opened
            gate = WeightSyncGate(tracker.policy)
            gated = with_gated_model(opened, gate)
            source = StreamSource(tracker, session.stop)
            breaker = Breaker(session.live, source)
            tracker.break_off = breaker.break_off
            pool = session.pool(_no_more_players_than(bounds, opened))
            session.begin(pool)
            tasks = anyio.create_task_group()
            scoring = group_scoring(session, tasks)
            feeder = Feeder(source, tracker, gated, writer, ledger, directory, scoring)
            sink = StampingSink(writer, session.live, session.bounds, tracker, gate, scoring)
            player = StreamPlayer(tracker, source, feeder, pool, sink, session)
            trainer_log = TrainerLog(directory)
            async with _exposed(plan.request.metrics, session, trainer_log), tasks:
                try:
                    opponents = Opponents(opened, tasks, credentials, ledger, directory)
                    await opponents.restore()
                    tasks.start_soon(player.run)
                    yield Supply(
                        tracker, feeder, gate, ledger, directory, control, breaker.discard, opponents, trainer_log
                    )
                    tracker.acknowledge()
                except Exception as error:
                    problem = error  # raised below: the run is only interrupted by it, and it arrives as it is
                finally:
                    session.ending = "finished" if tracker.is_finished else "interrupted"
                    writer.set_status(session.ending)
                    tasks.cancel_scope.cancel()
            if player.bug is not None:
                raise player.bug
    if problem is not None:
        raise problem


@asynccontextmanager
async def _exposed(address: str | None, session: Session, trainer_log: TrainerLog) -> AsyncGenerator[None]:
    """Expose the run's metrics and the trainer's latest figures, if an address is given.

    Raises:
        ConfigError: the address is invalid, or cannot be bound.
    """
    if address is None:
        yield
        return
    from rollouthub.telemetry.metrics.metrics_endpoint import (  # prometheus_client and a server of HTTP
        TOKEN_VARIABLE,
        monitored,
    )

    token = session.credentials.key(TOKEN_VARIABLE)
    async with monitored(address, session.live, None, token=token, note=logger.info) as monitor:
        monitor.trainer = trainer_log.latest
        session.on_commit.append(monitor.committed)
        yield


async def _tracker(
    ledger: Ledger,
    directory: Path,
    rules: SupplyRules,
    bounds: Bounds,
    filters: Sequence[GroupFilter],
    policy_version: int | None,
    state: SupplyState | None,
) -> GroupTracker:
    """The tracker of groups, at the version that is given, or a state's, or as stored."""
    if state is not None and policy_version is None:
        policy_version = state.policy_version
    policy = PolicyVersions(await _version(ledger, directory, rules, policy_version))
    tracker = GroupTracker(rules, bounds, policy, ledger.note, filters)
    tracker.note_rate = ledger.note_rate
    return tracker


async def _begin_curriculum(
    tracker: GroupTracker, ledger: Ledger, rules: SupplyRules, state: SupplyState | None
) -> None:
    """Begin the curriculum with pass rates of an earlier run, then with a state's, and keep them in the ledger."""
    rates: list[PassRate] = []
    if rules.band_from is not None:
        rates += await to_thread.run_sync(rates_of_run, Path(rules.band_from))
    if state is not None:
        rates += state.rates()
    for seen in rates:
        ledger.note_rate(seen)
        tracker.curriculum.learn(seen)


async def _version(ledger: Ledger, directory: Path, rules: SupplyRules, given: int | None) -> int:
    """The policy version to start with. If it is lower than the stored one, units handed out since are marked to be
    handed out again.
    """
    groups = await ledger.recall(GROUPS)
    if groups is not None and bool(groups) != rules.groups:
        raise RunDirectoryError(
            f"{directory} supplied {'groups' if groups else 'single rollouts'} before; "
            f"resume it with groups = {bool(groups)}"
        )
    ledger.remember(GROUPS, rules.groups)
    stored = await ledger.recall(POLICY_VERSION)
    if stored is not None and given is not None and given < stored:
        again = await ledger.rewind(given)
        logger.info("back to policy version %d: %d units handed out since are handed out again", given, again)
    version = given if given is not None else stored or 0
    ledger.remember(POLICY_VERSION, version)
    return version


def _no_more_players_than(bounds: Bounds, opened: OpenPlan) -> OpenPlan:
    """The plan with its concurrency limited to the number of samples that may be in flight: further players would
    only idle.
    """
    request = opened.plan.request
    concurrency = min(request.concurrency, bounds.outstanding * bounds.samples)
    plan = replace(opened.plan, request=request.model_copy(update={"concurrency": concurrency}))
    return replace(opened, plan=plan)
