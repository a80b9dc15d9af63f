"""`hub trust`: the keys that may sign for a namespace."""

import json
from typing import Annotated

import typer


def trust(
    namespace: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE", help="The namespace; all of them by default.")
    ] = None,
    key_ids: Annotated[
        list[str] | None, typer.Argument(metavar="KEYID", help="The ids of the only keys that may sign for it.")
    ] = None,
    is_removed: Annotated[
        bool, typer.Option("--remove", help="Unpin the namespace: its next install pins the key that signed it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the pinned keys, or pin a namespace to keys.

    The first install from a namespace pins the key that signed it; from then on, packages signed by another key are
    refused. When the owner has announced a new key, pin it here.
    """
    import os

    from rich.text import Text

    from rollouthub.cli.console import remarks, results
    from rollouthub.errors import ConfigError, UnknownNameError
    from rollouthub_registry.trust.keys import config_folder
    from rollouthub_registry.trust.pin_store import TrustStore

    store = TrustStore(config_folder(os.environ))
    if is_removed and (namespace is None or key_ids):
        raise ConfigError("--remove goes with one NAMESPACE and no keys")
    if namespace is not None and (is_removed or key_ids):
        if is_removed and namespace not in (pinned := store.pins().namespaces):
            raise UnknownNameError("namespace with pinned keys", namespace, pinned)
        keys = tuple(dict.fromkeys(key_ids or ()))
        before = store.trust(namespace, keys)
        if as_json:
            typer.echo(json.dumps({"namespace": namespace, "keys": list(keys), "before": list(before)}))
            return
        said = f"{namespace} is pinned to {', '.join(keys)}" if keys else f"{namespace} is pinned to no key any more"
        results().print(Text(f"{said}; before: {', '.join(before)}" if before else said))
        return
    pins = store.pins().namespaces
    if namespace is not None and namespace not in pins:
        raise UnknownNameError("namespace with pinned keys", namespace, pins)
    shown = {name: list(keys) for name, keys in sorted(pins.items()) if namespace in (None, name)}
    if as_json:
        typer.echo(json.dumps({"namespaces": shown}))
        return
    if not shown:
        remarks().print("no key is pinned yet; the first install from a namespace pins the key that signed")
    for name, keys in shown.items():
        results().print(Text(f"{name}: {', '.join(keys)}"))
