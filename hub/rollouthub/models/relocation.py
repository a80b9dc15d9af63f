"""A lane to a server that `hub serve model` keeps: when it comes back at another address, calls go there."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from rollouthub.errors import ModelError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import ParticularModel, preflight
from rollouthub.models.provider_names import split_name
from rollouthub.models.registered import PROVIDER, Registration, read_registration, registration_path, registry_folder
from rollouthub.models.router.open_router import OpenLane
from rollouthub.protocols import Model, ModelReply, ModelRequest, PricedModel, Sampling

logger = logging.getLogger(__name__)


class FollowedModel:
    """A model at one server of those registered. Looks for its address again when nobody answers at the last."""

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
        return f"FollowedModel({self.name!r} at {self._base_url})"

    async def open(self) -> None:
        """Open the lane to where it is now."""
        self._current = await self._lanes.enter_async_context(
            self._open_lane(self._config, self._base_url, self._credentials)
        )

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """US dollars, at the list price or the one that was given; None where there is none."""
        return self._current.cost_of(prompt_tokens, output_tokens) if isinstance(self._current, PricedModel) else None

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, as its lane does."""
        assert self._current is not None
        try:
            return await self._current.generate(request)
        except ModelError as error:
            if error.status is None:
                await self._look_again()
            raise

    async def check(self, timeout_seconds: float) -> None:
        """Check it where it is now.

        Raises:
            UsageError, CredentialError, ConfigError: as `CheckedModel.check`.
        """
        await self._look_again()
        assert self._current is not None
        await preflight(self._current, timeout_seconds)

    async def check_sampling(self, sampling: Sampling) -> None:
        """Look at what requests will ask for, as its lane does."""
        if isinstance(self._current, ParticularModel):
            await self._current.check_sampling(sampling)

    async def _look_again(self) -> None:
        """Go where it is now, if that is elsewhere."""
        async with self._looking:
            found = read_registration(self._path)
            now = None if found is None else _url_of(found, self._number)
            if now is None or now == self._base_url:
                return
            logger.info("%s has moved from %s to %s", self.name, self._base_url, now)
            self._base_url = now
            await self.open()


def following(open_lane: OpenLane) -> OpenLane:
    """Lanes that follow a server where it is one of those registered, and are plain ones otherwise."""

    @asynccontextmanager
    async def open_followed(
        config: ModelConfig, base_url: str | None, credentials: Credentials
    ) -> AsyncGenerator[Model]:
        provider, name = split_name(config.name)
        path = registration_path(registry_folder(credentials.get), name)
        found = read_registration(path) if provider == PROVIDER and base_url is not None else None
        number = None if found is None or base_url is None else _number_at(found, base_url)
        if number is None or base_url is None:
            async with open_lane(config, base_url, credentials) as lane:
                yield lane
            return
        async with AsyncExitStack() as lanes:
            model = FollowedModel(config, base_url, number, path, credentials, open_lane, lanes)
            await model.open()
            yield model

    return open_followed


def _number_at(found: Registration, base_url: str) -> int | None:
    return next((server.number for server in found.servers if server.base_url == base_url), None)


def _url_of(found: Registration, number: int) -> str | None:
    return next((server.base_url for server in found.servers if server.number == number), None)
