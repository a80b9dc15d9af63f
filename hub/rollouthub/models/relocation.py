"""A lane to a server of `hub serve model`: if the server is restarted at another address, calls follow it."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from rollouthub.errors import ModelError
from rollouthub.generation import Model, ModelReply, ModelRequest, PricedModel, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import ParticularModel, preflight
from rollouthub.models.provider_names import split_name
from rollouthub.models.registered import Registration, read_registration, registration_path, registry_folder
from rollouthub.models.router.open_router import OpenLane

logger = logging.getLogger(__name__)


class RelocatingModel:
    """A model at one registered server. When the server cannot be reached, its address is looked up again."""

    def __init__(
        self,
        config: ModelConfig,
        base_url: str,
        number: int,
        path: Path,
        credentials: Credentials,
        open_lane: OpenLane,
        lanes: AsyncExitStack,
    ) -> None:
        self.name = config.name
        self._config, self._base_url, self._number, self._path = config, base_url, number, path
        self._credentials, self._open_lane, self._lanes = credentials, open_lane, lanes
        self._current: Model | None = None
        self._looking = anyio.Lock()

    def __repr__(self) -> str:
        return f"RelocatingModel({self.name!r} at {self._base_url})"

    async def open(self) -> None:
        """Open the lane to the server's current address."""
        self._current = await self._lanes.enter_async_context(
            self._open_lane(self._config, self._base_url, self._credentials)
        )

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return self._current.cost_of(prompt_tokens, output_tokens) if isinstance(self._current, PricedModel) else None

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request through the current lane; after a failure without an HTTP status, look up the address
        for the next call.
        """
        assert self._current is not None
        try:
            return await self._current.generate(request)
        except ModelError as error:
            if error.status is None:
                await self._look_again()
            raise

    async def check(self, timeout_seconds: float) -> None:
        """Check the server at its current address.

        Raises:
            UsageError, CredentialError, ConfigError: as `CheckedModel.check`.
        """
        await self._look_again()
        assert self._current is not None
        await preflight(self._current, timeout_seconds)

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check the sampling settings of requests by the lane."""
        if isinstance(self._current, ParticularModel):
            await self._current.check_sampling(sampling)

    async def _look_again(self) -> None:
        """Look up the server's address, and open a new lane if it has changed."""
        async with self._looking:
            found = read_registration(self._path)
            now = None if found is None else _url_of(found, self._number)
            if now is None or now == self._base_url:
                return
            logger.info("%s has moved from %s to %s", self.name, self._base_url, now)
            self._base_url = now
            await self.open()


def relocating(open_lane: OpenLane) -> OpenLane:
    """A version of `open_lane` that follows registered servers to new addresses; other servers get a plain lane."""

    @asynccontextmanager
    async def open_relocating(
        config: ModelConfig, base_url: str | None, credentials: Credentials
    ) -> AsyncGenerator[Model]:
        path = registration_path(registry_folder(credentials.get), split_name(config.name)[1])
        found = read_registration(path) if base_url is not None else None
        found = found if found is not None and found.full_name == config.name else None
        number = None if found is None or base_url is None else _number_at(found, base_url)
        if number is None or base_url is None:
            async with open_lane(config, base_url, credentials) as lane:
                yield lane
            return
        async with AsyncExitStack() as lanes:
            model = RelocatingModel(config, base_url, number, path, credentials, open_lane, lanes)
            await model.open()
            yield model

    return open_relocating


def _number_at(found: Registration, base_url: str) -> int | None:
    return next((server.number for server in found.servers if server.base_url == base_url), None)


def _url_of(found: Registration, number: int) -> str | None:
    return next((server.base_url for server in found.servers if server.number == number), None)
