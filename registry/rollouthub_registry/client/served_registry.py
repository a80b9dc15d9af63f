"""The client of a registry that `hub serve registry` serves."""

from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollouthub.errors import invalid_fields
from rollouthub_registry.bundle.attestation import Envelope
from rollouthub_registry.client.client_error import Missing, NotPublished, RegistryFault, TokenRefused
from rollouthub_registry.client.http_client import RegistryHttpClient
from rollouthub_registry.client.offer import Fetched, Hit, Offer, Progress
from rollouthub_registry.client.release_reader import OfferedRelease
from rollouthub_registry.client.upload_form import Form
from rollouthub_registry.client.version_list import offer_of, offers_of
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope

API = "/envhub/v1"
LISTING_BYTES = 64 * 2**20
_ANSWER_BYTES = 2**20


class TokenFacts(BaseModel):
    """What a server knows of a token; newer servers may add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(max_length=100)
    namespace: str = Field(max_length=100)
    scopes: tuple[str, ...] = Field(max_length=20)
    expires_at: str | None = Field(default=None, max_length=100)


class Served:
    """A registry with the hub's own API; the token is sent only with requests that change something or ask about it."""

    def __init__(self, url: str, exchange: RegistryHttpClient, token: str | None) -> None:
        self.url, self._exchange, self._token = url, exchange, token

    async def offers(self, package: PackageName) -> list[Offer]:
        """See `Source`."""
        try:
            said = await self._exchange.read_json(f"{API}/packages/{package}", LISTING_BYTES)
        except Missing:
            raise NotPublished(f"{package} is not published at {self.url}") from None
        try:
            found = offers_of(package, _list(said, "versions"))
        except ValueError as error:
            raise self._nonsense(error) from None
        if not found:
            raise NotPublished(f"{package} is not published at {self.url}")
        return found

    async def statement(self, release: Release) -> tuple[Envelope, bytes]:
        """See `Source`."""
        return await self._published(release).read_statement(self._exchange)

    async def audit(self, release: Release) -> bytes | None:
        """See `Source`."""
        return await self._published(release).read_audit(self._exchange)

    async def fetch(self, release: Release, folder: Path, progress: Progress | None = None) -> Fetched:
        """See `Source`."""
        return await self._published(release).fetch(self._exchange, folder, progress)

    async def search(self, words: str, limit: int = 20, sort: str | None = None, tag: str | None = None) -> list[Hit]:
        """See `Source`."""
        asked = {"q": words, "limit": str(limit), "sort": sort or "", "tag": tag or ""}
        said = await self._exchange.read_json(f"{API}/search?{urlencode(asked)}", LISTING_BYTES)
        try:
            return [Hit(source=self.url, offer=offer_of(each)) for each in _list(said, "results")[:limit]]
        except ValueError as error:
            raise self._nonsense(error) from None

    async def publish(self, bundle: Path, envelope: bytes, progress: Progress | None = None) -> str:
        """See `Source`; the token is checked before the bundle is uploaded."""
        token = self._needed_token()
        await self.token_facts()
        form = Form({"statement": envelope, "bundle": bundle})
        said = await self._exchange.send(f"{API}/packages", token, form, _ANSWER_BYTES, progress)
        sent = open_envelope(parse_envelope(envelope)).statement
        try:
            told = offer_of(said)
            if (told.release, told.digest) != (sent.release, sent.digest):
                raise ValueError(f"{sent.release} was sent, and it says that it published {told.release} {told.digest}")
        except ValueError as error:
            raise self._nonsense(error) from None
        return f"{self.url}/packages/{sent.release.package}/{sent.release.version}"

    async def yank(self, release: Release, reason: str) -> None:
        """See `Source`."""
        try:
            path = f"{_path(release)}/yank"
            await self._exchange.ask("POST", path, self._needed_token(), _ANSWER_BYTES, {"reason": reason})
        except Missing:
            raise NotPublished(f"{release} is not published at {self.url}") from None

    async def token_facts(self) -> TokenFacts:
        """What the server knows of the token.

        Raises:
            TokenRefused: the server does not know it.
            RegistryFault: the server did not answer.
        """
        said = await self._exchange.ask("GET", f"{API}/token", self._needed_token(), _ANSWER_BYTES)
        try:
            return TokenFacts.model_validate(said)
        except ValidationError as error:
            raise self._nonsense(ValueError(invalid_fields(error))) from None

    def _published(self, release: Release) -> OfferedRelease:
        path = _path(release)
        return OfferedRelease(release, self.url, f"{path}/bundle", f"{path}/statement", f"{path}/audit")

    def _needed_token(self) -> str:
        if self._token is None:
            raise TokenRefused(f"the registry {self.url} needs a token for this; run `hub login {self.url}`")
        return self._token

    def _nonsense(self, error: ValueError) -> RegistryFault:
        return RegistryFault(f"the registry {self.url} does not answer as one: {error}")


def _path(release: Release) -> str:
    return f"{API}/packages/{release.package}/{release.version}"


def _list(said: Any, key: str) -> list[Any]:
    values: Any = cast(dict[str, Any], said).get(key) if isinstance(said, dict) else None
    if not isinstance(values, list):
        raise ValueError(f"it says no {key!r}")
    return cast(list[Any], values)
