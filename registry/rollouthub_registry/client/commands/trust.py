"""`hub trust`: the keys that may sign for a namespace, and the installed environments that need no wall."""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rollouthub_registry.trust.pin_store import TrustStore

trust = typer.Typer(
    help="List and change what this machine trusts: keys that sign for a namespace, environments without a wall.\n\n"
    "The first install from a namespace pins the key that signed it; from then on, packages signed by another key are "
    "refused. When the owner has announced a new key, `hub trust add NAMESPACE KEYID` pins it.\n\n"
    "Installed environments run behind a wall. `hub trust add NAMESPACE/NAME` lets the installed version of one read "
    "and reach what you do, from then on; another version has a wall until it is added, too.",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE|NAMESPACE/NAME[@VERSION]", help="A namespace, or an installed environment.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@trust.command("list")
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE|NAMESPACE/NAME", help="A namespace, or an environment; all of them by default."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the pinned keys, and the environments that run without a wall."""
    from rich.text import Text

    from rollouthub.cli.console import remarks, results

    pins = _store().pins()
    if name is not None:
        _require(name, {**pins.namespaces, **pins.unwalled})
    keys_of = {each: list(keys) for each, keys in sorted(pins.namespaces.items()) if name in (None, each)}
    unwalled = {each: digests for each, digests in sorted(pins.unwalled.items()) if name in (None, each)}
    if as_json:
        typer.echo(json.dumps({"namespaces": keys_of, "unwalled": unwalled}))
        return
    if not keys_of and not unwalled:
        remarks().print("no key is pinned yet; the first install from a namespace pins the key that signed")
    for each, keys in keys_of.items():
        results().print(Text(f"{each}: {', '.join(keys)}"))
    for each, digests in unwalled.items():
        for version, digest in digests.items():
            results().print(Text(f"{each}@{version}: no wall, {digest}"))


@trust.command("add")
def add(
    name: NameArgument,
    key_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEYID]…", help="Of a namespace: the ids of the only keys that may sign for it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Pin a namespace to keys, which replace the earlier ones; or let an installed environment run without a wall."""
    from rollouthub.errors import UsageError

    keys = tuple(dict.fromkeys(key_ids or ()))
    if "/" in name:
        if keys:
            namespace = name.partition("/")[0]
            raise UsageError(f"keys sign for a namespace, not for {name!r}: hub trust add {namespace} {keys[0]}")
        _unwall(name, as_json)
    elif not keys:
        raise UsageError(
            f"which keys may sign for {name!r}? hub trust add {name} KEYID; an environment is named {name}/NAME"
        )
    else:
        _pin(name, keys, f"{name} is pinned to {', '.join(keys)}", as_json)


@trust.command("remove")
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Unpin a namespace: its next install pins the key that signed it. Put an environment behind a wall again."""
    if "/" in name:
        _wall(name, as_json)
        return
    _require(name, _store().pins().namespaces)
    _pin(name, (), f"{name} is pinned to no key any more", as_json)


def _unwall(name: str, as_json: bool) -> None:
    """Remember that the installed version that is named needs no wall."""
    from rich.text import Text

    from rollouthub.cli.console import results
    from rollouthub.errors import ConfigError, UnknownNameError
    from rollouthub.plugins.installed import installations
    from rollouthub_registry.names import Release

    known = installations()
    installation = known.find(name)
    if installation is None:
        there = {each.target for each in known.readable()[0]}
        raise UnknownNameError("installed environment", name, there, f"`hub install {name}` installs it")
    release, digest = Release.parse(installation.target), installation.locked.bundle
    if digest is None:
        raise ConfigError(f"{release} has no digest, and cannot be told from another; `hub install` it again")
    _store().unwall(release.package, {str(release.version): digest})
    if as_json:
        typer.echo(json.dumps({"environment": str(release.package), "unwalled": {str(release.version): digest}}))
        return
    results().print(
        Text(f"{release} runs without a wall from now on: it reads and reaches what you do; hub trust remove {name}")
    )


def _wall(name: str, as_json: bool) -> None:
    """Forget that versions of an environment need no wall."""
    from rich.text import Text

    from rollouthub.cli.console import results
    from rollouthub_registry.names import PackageName

    package, _, version = name.partition("@")
    store, parsed = _store(), PackageName.parse(package)
    pins = store.pins().unwalled
    versions = {f"{each}@{number}" for each, numbers in pins.items() for number in numbers}
    _require(name, versions if version else pins, "environment without a wall")
    forgotten = store.wall(parsed, version or None)
    if as_json:
        typer.echo(json.dumps({"environment": package, "walled": list(forgotten)}))
        return
    results().print(Text(f"{package} runs behind a wall again: {', '.join(forgotten)}"))


def _store() -> "TrustStore":
    import os

    from rollouthub_registry.trust.keys import config_folder
    from rollouthub_registry.trust.pin_store import TrustStore

    return TrustStore(config_folder(os.environ))


def _require(name: str, known: Collection[str], kind: str = "namespace with pinned keys") -> None:
    from rollouthub.errors import UnknownNameError

    if name not in known:
        raise UnknownNameError(kind, name, known)


def _pin(namespace: str, keys: tuple[str, ...], said: str, as_json: bool) -> None:
    """Pin the namespace to these keys, and say which it had before."""
    from rich.text import Text

    from rollouthub.cli.console import results

    before = _store().trust(namespace, keys)
    if as_json:
        typer.echo(json.dumps({"namespace": namespace, "keys": list(keys), "before": list(before)}))
        return
    results().print(Text(f"{said}; before: {', '.join(before)}" if before else said))
