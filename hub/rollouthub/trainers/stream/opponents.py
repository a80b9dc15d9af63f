"""`Opponents`: adds older versions of the policy to the pool of a seat while a supply plays, and restores them."""

from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic import ValidationError

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.opponent_pool import Opponent, OpponentPool
from rollouthub.engine.sample import SeatPlayer
from rollouthub.errors import ConfigError, HubError, RunDirectoryError, first_error
from rollouthub.generation import Model, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_model
from rollouthub.plugins.file_owners import untrusted_owner_of
from rollouthub.text import plain_name
from rollouthub.trainers.stream.ledger import SUPPLY, AddedOpponent, Ledger


class Opponents:
    """The pools of a supply's seats; models that are added stay open as long as the supply."""

    def __init__(
        self, opened: OpenPlan, tasks: TaskGroup, credentials: Credentials, ledger: Ledger, directory: Path
    ) -> None:
        self._opened, self._tasks, self._credentials = opened, tasks, credentials
        self._ledger, self._directory = ledger, directory

    async def add(self, seat: str, model: ModelConfig, version: int | None, policy_version: int) -> None:
        """Open a model, check it, and let it meet groups that begin from now on, also after the supply is resumed.

        Raises:
            UsageError: the seat has no pool, the run plays on a cluster, or the model cannot be reached.
            StoreError: it cannot be recorded.
        """
        player, pool = self._player(seat)
        opened = await self._open(model, player)
        await self._ledger.add_opponent(
            AddedOpponent(seat, model.name, version, model.model_dump_json(), added_at=policy_version)
        )
        pool.add(Opponent(opened, version))

    async def restore(self) -> None:
        """Open the models that were added before the supply was resumed, and add them to their pools again.

        Raises:
            UsageError: one cannot be reached, the run plays on a cluster now, or another user chose the models.
        """
        added = await self._ledger.opponents()
        file = self._directory / SUPPLY
        owner = untrusted_owner_of(self._directory, file) if added else None
        if owner is not None:
            raise ConfigError(
                f"{file} adds the model {plain_name(added[0].name)!r} to a pool of opponents, and user {owner}, who "
                "owns it, chose the server that would be sent your key; make the run yours with `chown -R` if you "
                "trust it, or start a new one"
            )
        for each in added:
            try:
                model = ModelConfig.model_validate_json(each.model)
                player, pool = self._player(each.seat)
                opened = await self._open(model, player)
            except ValidationError as error:
                raise RunDirectoryError(
                    f"{file} is damaged: it does not say which model the opponent {each.name!r} of "
                    f"seat {each.seat!r} is; start a new run"
                ) from error
            except HubError as error:
                raise ConfigError(
                    f"{each.name!r}, which was added to the pool of seat {each.seat!r}, cannot play any more; serve it "
                    f"again before the supply is resumed: {error}"
                ) from error
            pool.add(Opponent(opened, each.version))

    def _player(self, seat: str) -> tuple[SeatPlayer, OpponentPool]:
        player = self._opened.seats.get(seat)
        if player is None or player.pool is None:
            pools = ", ".join(name for name, each in self._opened.seats.items() if each.pool is not None) or "none"
            raise ConfigError(
                f"seat {seat!r} has no pool of opponents (seats that have: {pools}); begin the supply with one: "
                f'seats={{"{seat}": {{"pool": ["MODEL"]}}}}'
            )
        if self._opened.plan.request.pool == "ray":
            raise ConfigError("on a cluster a pool cannot grow: name all of its members when the supply is opened")
        return player, player.pool

    async def _open(self, model: ModelConfig, player: SeatPlayer) -> Model:
        opened: Any = await self._tasks.start(self._hold, model, player.sampling)
        if isinstance(opened, Exception):
            raise opened
        return opened

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
