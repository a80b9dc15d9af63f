"""`registry.json`: marks a registry, and tells whether a server or plain files answer there."""

from pydantic import BaseModel, ConfigDict, ValidationError

from rollouthub.errors import ConfigError
from rollouthub_registry.client.served_registry import API
from rollouthub_registry.server.directory_layout import FORMAT

SIGN = "/registry.json"
SIGN_BYTES = 2**16


class _Sign(BaseModel):
    """The contents of `registry.json`; later registries may add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    api: str | None = None


def has_api(url: str, content: bytes) -> bool:
    """Whether a registry's server answers at the URL, rather than plain files.

    Raises:
        ConfigError: the file is invalid, or of a format that this hub does not know.
    """
    try:
        sign = _Sign.model_validate_json(content)
    except ValidationError:
        raise ConfigError(f"there is no registry at {url}: what answers as its registry.json is none") from None
    if sign.format != FORMAT or sign.api not in (None, API):
        raise ConfigError(f"the registry {url} is of a later form than this hub knows; get a newer rollouthub")
    return sign.api is not None
