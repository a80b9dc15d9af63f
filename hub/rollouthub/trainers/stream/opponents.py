"""`Opponents`: adds older versions of the policy to the pool of a seat while a supply plays."""

from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.opponent_pool import Opponent
from rollouthub.errors import ConfigError, first_error
from rollouthub.generation import Model, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_model


class Opponents:
    """The pools of a supply's seats; models that are added stay open as long as the supply."""

    def __init__(self, opened: OpenPlan, tasks: TaskGroup, credentials: Credentials) -> None:
        self._opened, self._tasks, self._credentials = opened, tasks, credentials

    async def add(self, seat: str, model: ModelConfig, version: int | None) -> None:
        """Open a model, check it, and let it meet groups that begin from now on.

        Raises:
            UsageError: the seat has no pool, the run plays on a cluster, or the model cannot be reached.
        """
        player = self._opened.seats.get(seat)
        if player is None or player.pool is None:
            pools = ", ".join(name for name, each in self._opened.seats.items() if each.pool is not None) or "none"
            raise ConfigError(
                f"seat {seat!r} has no pool of opponents (seats that have: {pools}); begin the supply with one: "
                f'seats={{"{seat}": {{"pool": ["MODEL"]}}}}'
            )
        if self._opened.plan.request.pool == "ray":
            raise ConfigError("on a cluster a pool cannot grow: name all of its members when the supply is opened")
        opened: Any = await self._tasks.start(self._hold, model, player.sampling)
        if isinstance(opened, Exception):
            raise opened
        player.pool.add(Opponent(opened, version))

    async def _hold(
        self, config: ModelConfig, sampling: Sampling, *, task_status: TaskStatus[Model | Exception]
    ) -> None:
        """Keep a model open; an error is the caller's, not the supply's."""
        is_open = False
        try:
            async with open_model(config, self._credentials) as model:
                await preflight(model, sampling=sampling)
                is_open = True
                task_status.started(model)
                await anyio.sleep_forever()
        except Exception as error:
            if is_open:
                raise
            first = first_error(error) if isinstance(error, BaseExceptionGroup) else error
            task_status.started(first if isinstance(first, Exception) else error)
