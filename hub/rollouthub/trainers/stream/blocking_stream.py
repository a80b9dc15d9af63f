"""A supply for trainers without an event loop: a plain iterator; its event loop runs in a thread that anyio starts."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Generic, SupportsFloat

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rollouthub.models.config import ModelConfig
from rollouthub.trainers.stream.generation_control import Episodes, InFlight
from rollouthub.trainers.stream.replay_buffer import Strategy
from rollouthub.trainers.stream.stream_stats import SupplyStats
from rollouthub.trainers.stream.supply import Piece, Supply


class BlockingSupply(Generic[Piece]):
    """A `Supply` with blocking methods."""

    def __init__(self, portal: BlockingPortal, supply: Supply[Piece]) -> None:
        self._portal, self._supply = portal, supply

    @property
    def policy_version(self) -> int:
        """The version of the weights that generate now."""
        return self._supply.policy_version

    @property
    def stats(self) -> SupplyStats:
        """Counts of units begun, handed out and dropped so far."""
        return self._portal.call(lambda: self._supply.stats)

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        """The next group, or single rollout.

        Raises:
            SupplyError, StoreError: as `Supply` does.
        """
        pieces = self.batch(1)
        if not pieces:
            raise StopIteration
        return pieces[0]

    def batch(self, size: int | None = None) -> list[Piece]:
        """The next `size` groups or rollouts (default: the supply's `batch`); fewer, or none, at the end."""
        return self._portal.call(self._supply.batch, size)

    def sample(
        self, size: int, *, max_staleness: int | None = None, strategy: Strategy = "fresh", seed: int | None = None
    ) -> list[Piece]:
        """Draw from groups or rollouts that were handed out before, see `Supply.sample`."""
        draw = partial(self._supply.sample, size, max_staleness=max_staleness, strategy=strategy, seed=seed)
        return list(self._portal.call(draw))

    def add_opponent(self, seat: str, model: str | ModelConfig, *, version: int | None = None) -> None:
        """Add a model to the pool of a seat, see `Supply.add_opponent`."""
        self._portal.call(partial(self._supply.add_opponent, seat, model, version=version))

    def log(self, figures: Mapping[str, SupportsFloat], *, step: int | None = None) -> None:
        """Log figures of the trainer's step, see `Supply.log`."""
        self._portal.call(partial(self._supply.log, figures, step=step))

    def state(self) -> dict[str, Any]:
        """What a trainer's checkpoint should keep of the supply, see `Supply.state`."""
        return self._portal.call(self._supply.state)

    def pause(
        self, in_flight: InFlight = "finish", *, episodes: Episodes = "continue", patience_seconds: float = 60.0
    ) -> None:
        """Pause generation, see `Supply.pause`."""
        hold = partial(self._supply.pause, in_flight, episodes=episodes, patience_seconds=patience_seconds)
        self._portal.call(hold)

    def resume(self) -> None:
        """Resume generation, see `Supply.resume`."""
        self._portal.call(self._supply.resume)

    @contextmanager
    def updating(
        self,
        version: int | None = None,
        *,
        in_flight: InFlight = "finish",
        episodes: Episodes = "continue",
        patience_seconds: float = 60.0,
    ) -> Generator[int]:
        """Update the weights within the block, in the caller's thread; see `Supply.updating`."""
        block = self._supply.updating(
            version, in_flight=in_flight, episodes=episodes, patience_seconds=patience_seconds
        )
        with self._portal.wrap_async_context_manager(block) as published:
            yield published

    def publish_weights(
        self,
        version: int | None = None,
        update: Callable[[], object] | None = None,
        *,
        in_flight: InFlight = "finish",
        episodes: Episodes = "continue",
        patience_seconds: float = 60.0,
    ) -> int:
        """Pause, call `update` in the caller's thread, and resume; see `Supply.publish_weights`."""
        exchange = self.updating(version, in_flight=in_flight, episodes=episodes, patience_seconds=patience_seconds)
        with exchange as published:
            if update is not None:
                update()
        return published


@contextmanager
def blocking(supply: AbstractAsyncContextManager[Supply[Piece]]) -> Generator[BlockingSupply[Piece]]:
    """Open a supply for a caller without an event loop:

        with blocking(rollouthub.stream_rollouts(environments=("arithmetic",), directory="runs/a")) as supply:
            for group in supply:
                ...

    Raises:
        UsageError: as `stream_rollouts`.
    """
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(supply) as opened:
        yield BlockingSupply(portal, opened)
