"""Tests whether a URL is a registry before it is saved."""

from rollouthub.errors import ConfigError, HubError, UsageError
from rollouthub_registry.client.address import folder_of
from rollouthub_registry.client.client_error import RegistryFault
from rollouthub_registry.client.http_client import Patience
from rollouthub_registry.client.marker import SIGN
from rollouthub_registry.client.source import open_source
from rollouthub_registry.server.atomic_write import check_can_become_registry
from rollouthub_registry.server.directory_layout import Layout

_PATIENCE = Patience(connect_seconds=5.0, answer_seconds=10.0)
_ANYWAY = "nothing was added; --no-check adds it nevertheless"


async def is_registry_at(url: str) -> bool:
    """Check that a registry answers at the URL; False for a folder that is empty or missing, which publishing makes
    one.

    Raises:
        ConfigError: there is no registry.
        RegistryFault: the registry fails, or does not answer within ten seconds.
    """
    folder = folder_of(url)
    try:
        if folder is not None and not (folder / SIGN.lstrip("/")).exists():
            check_can_become_registry(Layout(folder.absolute()))
            return False
        async with open_source(url, patience=_PATIENCE):
            return True
    except UsageError as error:
        raise ConfigError(f"{error}; {_ANYWAY}") from error
    except HubError as error:
        raise RegistryFault(f"{error}; {_ANYWAY}") from error
