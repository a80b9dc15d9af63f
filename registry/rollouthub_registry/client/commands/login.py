"""`hub login`: stores a token for a registry."""

import json
from typing import Annotated

import typer


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The registry that the token is for.")],
    from_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read the token from stdin.")] = False,
    logout: Annotated[bool, typer.Option("--logout", help="Remove the token for this registry.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Store a token for a registry, for publishing and yanking.

    The registry is first asked what the token permits. The token is stored in a file that only you can read, and sent
    to this registry alone. `hub registry token create` makes tokens.
    """
    import os

    from rich.text import Text

    from rollouthub.cli.console import results
    from rollouthub.errors import ConfigError
    from rollouthub.event_loop import run_async
    from rollouthub.text import one_line
    from rollouthub_registry.client.address import folder_of, registry_url
    from rollouthub_registry.client.token_check import facts_of_token
    from rollouthub_registry.client.token_store import check_form, forget_token, keep_token
    from rollouthub_registry.trust.keys import config_folder

    url, folder = registry_url(url), config_folder(os.environ)
    if folder_of(url) is not None:
        raise ConfigError(f"{url} needs no token: every user who can write the folder can publish in it")
    if logout:
        was_there = forget_token(url, folder)
        said = f"the token for {url} is forgotten" if was_there else f"there was no token for {url}"
        typer.echo(json.dumps({"url": url, "was_there": was_there}) if as_json else said)
        return
    token = check_form(_asked(url, from_stdin), "what was given")
    facts = run_async(facts_of_token, url, token)
    keep_token(url, token, folder)
    if as_json:
        typer.echo(json.dumps({"url": url, **facts.model_dump(mode="json")}))
        return
    where = "in any namespace" if facts.namespace == "*" else f"in the namespace {facts.namespace}"
    until = f" until {facts.expires_at}" if facts.expires_at else ""
    results().print(
        Text(one_line(f"the token {facts.id} is kept for {url}: to {' and '.join(facts.scopes)} {where}{until}"))
    )


def _asked(url: str, from_stdin: bool) -> str:
    import sys

    from rollouthub.errors import ConfigError

    if from_stdin:
        return sys.stdin.read(1000).strip()
    if not sys.stdin.isatty():
        raise ConfigError("stdin is no terminal, so the token cannot be asked for; pipe it in with --token-stdin")
    return str(typer.prompt(f"token for {url}", hide_input=True, err=True)).strip()
