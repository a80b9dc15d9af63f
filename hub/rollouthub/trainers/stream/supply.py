"""The consumer's side of a supply: an async iterator of groups or rollouts, and the update of weights."""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, SupportsFloat, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec

from rollouthub.errors import UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream.generation_control import Episodes, GenerationControl, InFlight
from rollouthub.trainers.stream.group_tracker import GroupTracker
from rollouthub.trainers.stream.ledger import Ledger
from rollouthub.trainers.stream.lora_adapters import AdapterServing
from rollouthub.trainers.stream.opponents import Opponents
from rollouthub.trainers.stream.replay_buffer import Strategy, replayed
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.stream_source import Feeder
from rollouthub.trainers.stream.stream_stats import SupplyStats
from rollouthub.trainers.stream.supply_state import SupplyState
from rollouthub.trainers.stream.suspect_scores import trusted_group
from rollouthub.trainers.stream.trainer_log import TrainerLog
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate

Piece = TypeVar("Piece", RolloutGroup, Rollout)

POLICY_VERSION = "policy_version"


class Supply(Generic[Piece]):
    """Scored rollouts as they finish, for a trainer that pulls. Made by `rollouthub.stream_rollouts`; iterate it once.

    A group or rollout counts as consumed when the consumer comes back: for the next, to publish weights, or by leaving
    the block without an error. Several tasks may iterate one supply; each group or rollout goes to one of them.
    """

    def __init__(
        self,
        tracker: GroupTracker,
        feeder: Feeder,
        gate: WeightSyncGate,
        ledger: Ledger,
        directory: Path,
        control: GenerationControl | None,
        discard: Callable[[], None],
        opponents: Opponents,
        trainer_log: TrainerLog,
    ) -> None:
        """`discard` cancels the episodes in flight, and has their samples played again."""
        self._discard, self._opponents = discard, opponents
        self._tracker, self._feeder, self._gate, self._ledger = tracker, feeder, gate, ledger
        self._control, self._trainer_log = control, trainer_log
        self._show_adapter()
        self._exchange = anyio.Lock()
        self._is_half_done = False
        """Whether generation is paused because a weight update failed half-way."""
        self.directory = directory
        """The run's directory, which holds every rollout, handed out or not."""

    @property
    def policy_version(self) -> int:
        """The version of the weights that generate now."""
        return self._tracker.policy.version

    @property
    def stats(self) -> SupplyStats:
        """Counts of units begun, handed out and dropped so far."""
        return replace(
            self._tracker.stats,
            policy_version=self.policy_version,
            is_paused=self.is_paused,
            aborted_calls=self._gate.aborted,
        )

    @property
    def is_paused(self) -> bool:
        """Whether generation is paused."""
        return not self._gate.is_open

    def __aiter__(self) -> "Supply[Piece]":
        return self

    async def __anext__(self) -> Piece:
        """The next group, or single rollout.

        Raises:
            SupplyError: the supply cannot go on: a budget is spent, or more groups are dropped than `max_dropped`
            allows.
            StoreError: the run can no longer be written.
        """
        self._tracker.acknowledge()
        group = await self._tracker.take()
        if group is None:
            raise StopAsyncIteration
        return self._piece(group)

    def _piece(self, group: RolloutGroup) -> Piece:
        if self._tracker.rules.suspect:
            group = trusted_group(group)
        return cast("Piece", group if self._tracker.rules.groups else group.rollouts[0])

    async def batch(self, size: int | None = None) -> list[Piece]:
        """The next `size` groups or rollouts (default: the supply's `batch`); fewer, or none, at the end.

        Raises:
            SupplyError, StoreError: as in iteration; groups taken by this call come again with `resume`.
        """
        self._tracker.acknowledge()
        pieces: list[Piece] = []
        for _ in range(self._tracker.bounds.batch if size is None else size):
            group = await self._tracker.take()
            if group is None:
                break
            pieces.append(self._piece(group))
        return pieces

    async def sample(
        self, size: int, *, max_staleness: int | None = None, strategy: Strategy = "fresh", seed: int | None = None
    ) -> Sequence[Piece]:
        """Draw groups or rollouts that were handed out before or became stale, from the run's store; fewer than `size`
        if the store holds fewer.

        `max_staleness` counts versions back from the current one; None is no bound. `fresh` takes the newest, `uniform`
        draws with equal weight, and `weighted` with a weight that halves with each version of age. `seed` makes the
        draw repeatable.

        Raises:
            StoreError: the store cannot be read.
        """
        drawn = await replayed(
            self._ledger,
            self.directory,
            size,
            version=self.policy_version,
            max_staleness=max_staleness,
            strategy=strategy,
            seed=seed,
            is_group=self._tracker.rules.groups,
        )
        return [self._piece(group) for group in drawn]

    async def add_opponent(self, seat: str, model: str | ModelConfig, *, version: int | None = None) -> None:
        """Add a model, such as a checkpoint that is served under a name of its own, to the pool of a seat: groups that
        begin from now on may meet it, also after `resume`. The record's `seats` has its name and `version`; a model of
        the same name and version takes the place of the earlier one, for example at another address.

        Raises:
            UsageError: the seat has no pool, or the model cannot be reached.
            StoreError: the supply can no longer be written.
        """
        config = ModelConfig(name=model) if isinstance(model, str) else model
        await self._opponents.add(seat, config, version, self.policy_version)

    async def log(self, figures: Mapping[str, SupportsFloat], *, step: int | None = None) -> None:
        """Log figures of the trainer's step, such as `{"loss": loss}`, beside the run's rewards: in `trainer.jsonl` of
        its directory, which `hub watch` and `hub show` read. `step` is the current policy version by default.

        Raises:
            ConfigError: there are no figures or more than 64, a name is invalid, or a value is no number.
            StoreError: the file cannot be written.
        """
        await self._trainer_log.add(self.policy_version if step is None else step, figures)

    def state(self) -> dict[str, Any]:
        """What a trainer's checkpoint should keep of the supply, as plain JSON: the policy version, and the tasks that
        the curriculum (`band`) leaves out. `stream_rollouts(state=…)` goes on with it in a new directory.
        """
        resting = self._tracker.curriculum.resting(self._tracker.stats.epoch)
        return msgspec.to_builtins(SupplyState(self.policy_version, resting))

    # --- the exchange of weights ------------------------------------------------------------------------------------

    async def pause(
        self, in_flight: InFlight = "finish", *, episodes: Episodes = "continue", patience_seconds: float = 60.0
    ) -> None:
        """Begin nothing new and hold every model call; environments and verifiers continue.

        `in_flight` says what happens to calls in flight, and `episodes` what happens to unfinished episodes. Discarded
        episodes are recorded as cancelled, and their samples are played again after `resume`.

        With `finish`, calls that are not answered within `patience_seconds` are cancelled and repeated later. The time
        limits of episodes are not extended.

        Raises:
            SupplyError: a server could not be paused; generation stays held.
        """
        self._feeder.is_held = self._tracker.is_held = True
        self._gate.shut()
        if episodes == "discard":
            self._discard()
        if in_flight == "finish":
            with anyio.move_on_after(patience_seconds):
                await self._gate.empty()
        if in_flight != "keep":
            self._gate.abort()
            with anyio.move_on_after(patience_seconds):
                await self._gate.empty()
        if self._control is not None:
            await self._control.pause(in_flight)

    async def resume(self) -> None:
        """Continue generation.

        Raises:
            SupplyError: a server could not be resumed; generation stays held.
        """
        if self._control is not None:
            await self._control.resume()
        self._gate.open()
        self._feeder.is_held = self._tracker.is_held = self._is_half_done = False
        self._tracker.change()

    def _show_adapter(self) -> None:
        if isinstance(self._control, AdapterServing):
            self._gate.adapter = self._control.adapter

    @asynccontextmanager
    async def updating(
        self,
        version: int | None = None,
        *,
        in_flight: InFlight = "finish",
        episodes: Episodes = "continue",
        patience_seconds: float = 60.0,
    ) -> AsyncGenerator[int]:
        """Update the weights within the block; later generations are stamped with `version`, by default the current one
        plus 1.

        If the block fails, the version is unchanged and generation stays paused, because it is unknown which weights
        are loaded. Another successful `updating` resumes it; or call `resume` if the old weights are known to be
        intact.

        Raises:
            UsageError: the version is not higher than the current one.
            SupplyError: a server could not be paused, updated or resumed.
        """
        async with self._exchange:
            now = self.policy_version
            version = now + 1 if version is None else version
            if version <= now:
                raise UsageError(f"policy version {version} is to follow {now}; versions only grow")
            was_paused = self.is_paused and not self._is_half_done
            self._is_half_done = not was_paused
            if not was_paused:
                await self.pause(in_flight, episodes=episodes, patience_seconds=patience_seconds)
            yield version
            if self._control is not None:
                await self._control.updated(version)
                self._show_adapter()
            self._is_half_done = False
            self._tracker.acknowledge()
            self._tracker.policy.advance(version)
            self._tracker.room.versions += 1
            self._ledger.remember(POLICY_VERSION, version)
            self._tracker.sweep()
            if not was_paused:
                await self.resume()

    async def publish_weights(
        self,
        version: int | None = None,
        update: Callable[[], object] | None = None,
        *,
        in_flight: InFlight = "finish",
        episodes: Episodes = "continue",
        patience_seconds: float = 60.0,
    ) -> int:
        """Pause, have `update` load the new weights into the inference servers, and resume. Returns the new version.

        `update` may be async; a synchronous one runs in a worker thread. `updating` is the same as a context manager.

        Raises:
            UsageError, SupplyError: as `updating`; and any exception of `update`.
        """
        exchange = self.updating(version, in_flight=in_flight, episodes=episodes, patience_seconds=patience_seconds)
        async with exchange as published:
            if inspect.iscoroutinefunction(update):
                await update()
            elif update is not None:
                result = await anyio.to_thread.run_sync(update)
                if inspect.isawaitable(result):
                    await result
        return published
