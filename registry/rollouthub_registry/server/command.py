"""The commands `hub registry …`. They import what they need when they run, so that `--help` is instant."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rollouthub_registry.server.token_hashes import Scope, Token

token = typer.Typer(help="Create, list and revoke tokens for publishing through the server.", no_args_is_help=True)
namespace = typer.Typer(help="List and change which keys may publish in a namespace.", no_args_is_help=True)

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The registry's directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def rebuild_index(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Rebuild the index from the directory; published versions and download counts are kept."""
    import time

    from rollouthub_registry.server.registry import rebuild

    _require_registry(directory)
    started = time.perf_counter()
    versions = rebuild(directory)
    seconds = time.perf_counter() - started
    if as_json:
        typer.echo(json.dumps({"versions": versions, "seconds": round(seconds, 3)}))
    else:
        typer.echo(f"{versions} versions indexed in {seconds:.1f} s")


@token.command("create")
def create_token(
    directory: DirectoryArgument,
    of: Annotated[
        str, typer.Option("--namespace", metavar="NAMESPACE", help="The namespace that the token is for; '*' for any.")
    ],
    scope: Annotated[
        str, typer.Option(help="What the token permits: publish, yank, or both with a comma.")
    ] = "publish",
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="When the token expires: a date or time, or a number of days (90d). Never by default."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token and print it once; only its hash is stored."""
    made, text = _tokens(directory).create(of, _scopes(scope), _expiry(expires))
    if as_json:
        typer.echo(json.dumps({**_token_json(made), "token": text}))
    else:
        typer.echo(text)


@token.command("list")
def list_tokens(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    from rich.table import Table

    from rollouthub.cli.console import results

    _require_registry(directory)
    rows = [_token_json(each) for each in _tokens(directory).all()]
    if as_json:
        typer.echo(json.dumps({"tokens": rows}))
        return
    table = Table("id", "namespace", "for", "created", "expires", "state")
    for row in rows:
        expires = row["expires_at"] or "never"
        table.add_row(row["id"], row["namespace"], ", ".join(row["scopes"]), row["created_at"], expires, row["state"])
    results().print(table)


@token.command("revoke")
def revoke_token(
    directory: DirectoryArgument,
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="The token's id, as `hub registry token list` shows it.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Revoke a token, which is then no longer accepted."""
    _require_registry(directory)
    revoked = _tokens(directory).revoke(token_id)
    typer.echo(json.dumps(_token_json(revoked)) if as_json else f"{revoked.token_id} is revoked")


@namespace.command("assign")
def assign_namespace(
    directory: DirectoryArgument,
    name: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")],
    keys: Annotated[list[str], typer.Option("--key", metavar="KEYID", help="An owner's key id; repeatable.")],
    as_json: JsonOption = False,
) -> None:
    """Make these keys the only owners of a namespace, replacing earlier ones."""
    import re

    from rollouthub.errors import ConfigError
    from rollouthub_registry.names import parse_namespace
    from rollouthub_registry.server.atomic_write import locked, open_layout
    from rollouthub_registry.server.owners import KEY_ID, assign

    parse_namespace(name)
    if wrong := next((key for key in keys if not re.fullmatch(KEY_ID, key)), None):
        raise ConfigError(f"--key {wrong!r} is no key id: it has 64 hexadecimal digits")
    layout = open_layout(directory)
    with locked(layout):
        given = assign(layout, name, tuple(keys))
    typer.echo(given.model_dump_json() if as_json else f"{name} belongs to {len(given.owners)} key(s)")


@namespace.command("list")
def list_namespaces(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """List namespaces and the ids of their owners' keys."""
    from rollouthub_registry.server.atomic_write import open_layout
    from rollouthub_registry.server.owners import all_owners

    _require_registry(directory)
    known = all_owners(open_layout(directory))
    if as_json:
        typer.echo(json.dumps({"namespaces": [each.model_dump(mode="json") for each in known]}))
        return
    for each in known:
        typer.echo(f"{each.namespace}: {', '.join(each.owners)}")


def _require_registry(directory: Path) -> None:
    """Refuse a directory that holds no registry, where opening it would make one."""
    from rollouthub.errors import ConfigError

    if not (directory / "packages").is_dir():
        raise ConfigError(f"{directory} holds no registry: there is no {directory / 'packages'}; check the path")


def _tokens(directory: Path) -> Any:
    from rollouthub_registry.server.atomic_write import open_layout
    from rollouthub_registry.server.token_hashes import Tokens

    return Tokens(open_layout(directory).tokens)


def _scopes(text: str) -> "tuple[Scope, ...]":
    from rollouthub.errors import UnknownNameError
    from rollouthub_registry.server.token_hashes import SCOPES

    words = [word.strip() for word in text.split(",") if word.strip()]
    if unknown := next((word for word in words if word not in SCOPES), None):
        raise UnknownNameError("scope", unknown, SCOPES)
    return tuple(scope for scope in SCOPES if scope in words)


def _expiry(text: str | None) -> Any:
    import re
    from datetime import UTC, datetime, timedelta

    from rollouthub.errors import ConfigError

    if text is None:
        return None
    if days := re.fullmatch(r"(\d{1,5})d", text, re.ASCII):
        return datetime.now(UTC) + timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--expires {text!r} is no time; write 90d, 2027-01-31 or 2027-01-31T12:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _token_json(each: "Token") -> dict[str, Any]:
    from datetime import UTC, datetime

    return {
        "id": each.token_id,
        "namespace": each.namespace,
        "scopes": list(each.scopes),
        "created_at": each.created_at.isoformat(timespec="seconds"),
        "expires_at": each.expires_at.isoformat(timespec="seconds") if each.expires_at is not None else None,
        "state": each.state(datetime.now(UTC)),
    }
