"""The owners of namespaces: the keys that may sign what is published in them."""

from pathlib import Path

from pydantic import Field, ValidationError

from rollouthub.errors import StoreError
from rollouthub.values import Frozen
from rollouthub_registry.names import PackageName, skeleton
from rollouthub_registry.server.atomic_write import write_whole
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.server.server_error import RegistryRequestRefused

KEY_ID = r"^[0-9a-f]{64}$"


class Namespace(Frozen):
    """The content of `namespaces/NAMESPACE.json`."""

    namespace: str
    owners: tuple[str, ...] = Field(max_length=100)
    """Ids of the owners' keys: SHA-256 of the raw Ed25519 public key."""


def owners_of(layout: Layout, namespace: str) -> Namespace | None:
    """A namespace's owners; None if it has none yet.

    Raises:
        StoreError: its file cannot be read; no publication is accepted then.
    """
    return _read(layout.owners(namespace))


def all_owners(layout: Layout) -> list[Namespace]:
    """Every namespace that has owners.

    Raises:
        StoreError: a file cannot be read.
    """
    found = (_read(path) for path in sorted(layout.namespaces.glob("[!.]*.json")))
    return [namespace for namespace in found if namespace is not None]


def assign(layout: Layout, namespace: str, owners: tuple[str, ...]) -> Namespace:
    """Make these keys the only owners of a namespace. The caller must hold the lock.

    Raises:
        RegistryRequestRefused: the namespace looks like another one.
        StoreError: writing failed.
    """
    refuse_lookalike_namespace(layout, namespace)
    given = Namespace(namespace=namespace, owners=tuple(dict.fromkeys(owners)))
    write_whole(layout.owners(namespace), given.model_dump_json() + "\n")
    return given


def refuse_stranger(layout: Layout, namespace: str, key_id: str) -> bool:
    """Check that a key may publish in a namespace; True if the namespace has no owner yet.

    Raises:
        RegistryRequestRefused: the namespace has owners, and the key is not one of them.
    """
    known = owners_of(layout, namespace)
    if known is None:
        return True
    if key_id not in known.owners:
        raise RegistryRequestRefused(
            403,
            f"the namespace {namespace!r} belongs to another key: this is signed by {key_id[:16]}…, which is none of "
            f"its {len(known.owners)}; sign with the owner's key, or let the registry's operator add this one",
        )
    return False


def refuse_lookalike_namespace(layout: Layout, namespace: str) -> None:
    """Refuse a namespace whose name looks like an existing one's.

    Raises:
        RegistryRequestRefused: it does.
    """
    meant = skeleton(namespace)
    taken = {path.stem for path in layout.namespaces.glob("[!.]*.json")} | _names(layout.packages)
    if other := next((name for name in sorted(taken) if name != namespace and skeleton(name) == meant), None):
        raise RegistryRequestRefused(
            409, f"the namespace {namespace!r} could be taken for {other!r}, which exists; take another"
        )


def refuse_lookalike_package(layout: Layout, package: PackageName) -> None:
    """Refuse a package name that looks like another in its namespace.

    Raises:
        RegistryRequestRefused: it does.
    """
    folder, meant = layout.packages / package.namespace, skeleton(package.name)
    for name in sorted(_names(folder)):
        if name != package.name and skeleton(name) == meant and any((folder / name).iterdir()):
            raise RegistryRequestRefused(
                409, f"{package} could be taken for {package.namespace}/{name}, which exists; take another"
            )


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if entry.is_dir()}
    except FileNotFoundError:
        return set()


def _read(path: Path) -> Namespace | None:
    try:
        return Namespace.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StoreError(
            f"{path} cannot be read, and no publication is accepted there until it can: {error}"
        ) from error
