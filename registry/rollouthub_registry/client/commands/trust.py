"""`hub trust`: the keys that may sign for a namespace."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rollouthub_registry.trust.pin_store import TrustStore

trust = typer.Typer(
    help="List and change the keys that may sign for a namespace.\n\n"
    "The first install from a namespace pins the key that signed it; from then on, packages signed by another key are "
    "refused. When the owner has announced a new key, `hub trust add` pins it.",
    no_args_is_help=True,
)

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@trust.command("list")
def show(
    namespace: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE", help="The namespace; all of them by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the pinned keys."""
    from rich.text import Text

    from rollouthub.cli.console import remarks, results

    pins = _store().pins().namespaces
    if namespace is not None:
        _require(namespace, pins)
    shown = {name: list(keys) for name, keys in sorted(pins.items()) if namespace in (None, name)}
    if as_json:
        typer.echo(json.dumps({"namespaces": shown}))
        return
    if not shown:
        remarks().print("no key is pinned yet; the first install from a namespace pins the key that signed")
    for name, keys in shown.items():
        results().print(Text(f"{name}: {', '.join(keys)}"))


@trust.command("add")
def add(
    namespace: NamespaceArgument,
    key_ids: Annotated[
        list[str], typer.Argument(metavar="KEYID…", help="The ids of the only keys that may sign for it.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Pin a namespace to these keys, which replace the earlier ones."""
    keys = tuple(dict.fromkeys(key_ids))
    _pin(namespace, keys, f"{namespace} is pinned to {', '.join(keys)}", as_json)


@trust.command("remove")
def remove(namespace: NamespaceArgument, as_json: JsonOption = False) -> None:
    """Unpin a namespace: its next install pins the key that signed it."""
    _require(namespace, _store().pins().namespaces)
    _pin(namespace, (), f"{namespace} is pinned to no key any more", as_json)


def _store() -> "TrustStore":
    import os

    from rollouthub_registry.trust.keys import config_folder
    from rollouthub_registry.trust.pin_store import TrustStore

    return TrustStore(config_folder(os.environ))


def _require(namespace: str, pinned: Mapping[str, Sequence[str]]) -> None:
    from rollouthub.errors import UnknownNameError

    if namespace not in pinned:
        raise UnknownNameError("namespace with pinned keys", namespace, pinned)


def _pin(namespace: str, keys: tuple[str, ...], said: str, as_json: bool) -> None:
    """Pin the namespace to these keys, and say which it had before."""
    from rich.text import Text

    from rollouthub.cli.console import results

    before = _store().trust(namespace, keys)
    if as_json:
        typer.echo(json.dumps({"namespace": namespace, "keys": list(keys), "before": list(before)}))
        return
    results().print(Text(f"{said}; before: {', '.join(before)}" if before else said))
