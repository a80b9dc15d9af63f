"""`registry.json`: marks a registry, and says whether a server or plain files answer there."""

from pydantic import BaseModel, ConfigDict, ValidationError

from rollouthub.errors import ConfigError
from rollouthub_registry.client.served_registry import API
from rollouthub_registry.server.directory_layout import FORMAT

SIGN = "/registry.json"
SIGN_BYTES = 2**16


class _Sign(BaseModel):
    """What it holds; later registries may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    api: str | None = None


def has_api(url: str, content: bytes) -> bool:
    """Whether the registry's server answers there.

    Raises:
        ConfigError: it is of a form that this hub does not know, or what is there is no registry's sign.
    """
    try:
        sign = _Sign.model_validate_json(content)
    except ValidationError:
        raise ConfigError(f"there is no registry at {url}: what answers as its registry.json is none") from None
    if sign.format != FORMAT or sign.api not in (None, API):
        raise ConfigError(f"the registry {url} is of a later form than this hub knows; get a newer rollouthub")
    return sign.api is not None
