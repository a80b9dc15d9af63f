"""The consumer's end of a supply: an async iterator of groups or rollouts, and the exchange of weights."""

import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar, cast

import anyio
import anyio.to_thread

from rollouthub.errors import UsageError
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream.generation_control import Episodes, GenerationControl, InFlight
from rollouthub.trainers.stream.group_tracker import GroupTracker
from rollouthub.trainers.stream.ledger import Ledger
from rollouthub.trainers.stream.replay_buffer import Strategy, replayed
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.stream_source import Feeder
from rollouthub.trainers.stream.stream_stats import SupplyStats
from rollouthub.trainers.stream.suspect_scores import trusted_group
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate

Piece = TypeVar("Piece", RolloutGroup, Rollout)

POLICY_VERSION = "policy_version"


class Supply(Generic[Piece]):
    """Scored rollouts as they come, for a trainer that pulls. Made by `rollouthub.stream_rollouts`; iterate it once.

    What was taken counts as done with when the consumer comes back: for more, to publish weights, or to leave the block
    without an error. Several tasks may take from it; each piece goes to one of them.
    """

    def __init__(
        self,
        desk: GroupTracker,
        feeder: Feeder,
        gate: WeightSyncGate,
        ledger: Ledger,
        directory: Path,
        control: GenerationControl | None,
        discard: Callable[[], None],
    ) -> None:
        """`discard` breaks off the episodes in flight, and has them played again."""
        self._discard = discard
        self._desk, self._feeder, self._gate, self._ledger = desk, feeder, gate, ledger
        self._control = control
        self._exchange = anyio.Lock()
        self._is_half_done = False
        """Whether generation is held because an exchange failed."""
        self.directory = directory
        """The run's: every rollout is there, handed out or not."""

    @property
    def policy_version(self) -> int:
        """The version of the weights that generate now."""
        return self._desk.policy.version

    @property
    def stats(self) -> SupplyStats:
        """What was begun, handed out and dropped so far."""
        return replace(
            self._desk.stats,
            policy_version=self.policy_version,
            is_paused=self.is_paused,
            aborted_calls=self._gate.aborted,
        )

    @property
    def is_paused(self) -> bool:
        """Whether generation is held."""
        return not self._gate.is_open

    def __aiter__(self) -> "Supply[Piece]":
        return self

    async def __anext__(self) -> Piece:
        """The next group, or rollout.

        Raises:
            SupplyError: the supply cannot go on: a budget is spent, or groups are dropped beyond `max_dropped`.
            StoreError: the run cannot be written any more.
        """
        self._desk.acknowledge()
        group = await self._desk.take()
        if group is None:
            raise StopAsyncIteration
        return self._piece(group)

    def _piece(self, group: RolloutGroup) -> Piece:
        if self._desk.rules.suspect:
            group = trusted_group(group)
        return cast("Piece", group if self._desk.rules.groups else group.rollouts[0])

    async def batch(self, size: int | None = None) -> list[Piece]:
        """The next so many pieces, by default the supply's `batch`; fewer at the end, and then none.

        Raises:
            SupplyError, StoreError: as iterating does; what was taken by then comes again with `resume`.
        """
        self._desk.acknowledge()
        pieces: list[Piece] = []
        for _ in range(self._desk.bounds.batch if size is None else size):
            group = await self._desk.take()
            if group is None:
                break
            pieces.append(self._piece(group))
        return pieces

    async def sample(
        self, size: int, *, max_staleness: int | None = None, strategy: Strategy = "fresh", seed: int | None = None
    ) -> Sequence[Piece]:
        """Draw from what was handed out before or went stale, out of the run's store; fewer where it holds fewer.

        `max_staleness` counts from the present version; None is no bound. `fresh` takes the newest, `uniform` any, and
        `weighted` each with half the weight of those a version newer. `seed` repeats a draw.

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
            is_group=self._desk.rules.groups,
        )
        return [self._piece(group) for group in drawn]

    # --- the exchange of weights ------------------------------------------------------------------------------------

    async def pause(
        self, in_flight: InFlight = "finish", *, episodes: Episodes = "continue", patience_seconds: float = 60.0
    ) -> None:
        """Begin nothing new and hold every model call; environments and verifiers go on meanwhile.

        `in_flight` says what becomes of calls, and `episodes` what becomes of episodes that are not over. Those that
        are discarded are on record as cancelled, and the same samples are played once more when generation goes on.

        Calls that `finish` has waited for so long are broken off and asked again. Episodes' own time limits and
        deadlines run on.

        Raises:
            SupplyError: a server could not be paused; generation stays held.
        """
        self._feeder.is_held = self._desk.is_held = True
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
        """Go on.

        Raises:
            SupplyError: a server could not be resumed; generation stays held.
        """
        if self._control is not None:
            await self._control.resume()
        self._gate.open()
        self._feeder.is_held = self._desk.is_held = self._is_half_done = False
        self._desk.change()

    @asynccontextmanager
    async def updating(
        self,
        version: int | None = None,
        *,
        in_flight: InFlight = "finish",
        episodes: Episodes = "continue",
        patience_seconds: float = 60.0,
    ) -> AsyncGenerator[int]:
        """Exchange the weights within the block; what is generated after it has this version, one more by default.

        Where the block fails, the version stays and generation is held: who knows which weights are there. Another
        `updating` that succeeds goes on; or `resume`, where the old ones are known to be whole.

        Raises:
            UsageError: the version is not higher than the present one.
            SupplyError: a server could not be paused, told or resumed.
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
            self._is_half_done = False
            self._desk.acknowledge()
            self._desk.policy.advance(version)
            self._desk.room.versions += 1
            self._ledger.remember(POLICY_VERSION, version)
            self._desk.sweep()
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
        """Pause, let `update` put the new weights where they generate, and go on; the version they have.

        `update` may be async; one that is not runs in a worker thread. See `updating`, which is this as a block.

        Raises:
            UsageError, SupplyError: as `updating`; and whatever `update` raises.
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
