"""Whose keys are known on this machine: the user's own, and those that are pinned for namespaces."""

from collections.abc import Mapping
from contextlib import suppress

from rollouthub.errors import HubError
from rollouthub_registry.trust.keys import config_folder, load_key
from rollouthub_registry.trust.pin_store import TrustStore

_MOST_KEYS = 100


def known_owners(environ: Mapping[str, str]) -> dict[str, str]:
    """Id of a key → whose it is, for a sentence; nothing is written, and what cannot be read is left out."""
    folder = config_folder(environ)
    found: dict[str, str] = {}
    with suppress(HubError):
        for namespace, keys in TrustStore(folder).pins().namespaces.items():
            found |= dict.fromkeys(keys, f"pinned for {namespace}")
    with suppress(OSError):
        for file in sorted((folder / "keys").glob("*.pem"))[:_MOST_KEYS]:
            with suppress(HubError):
                found[load_key(file.parent, file.stem).id] = f"yours ({file.stem})"
    return found
