"""`hub fetch`: its options; it loads what it needs when it runs."""

from typing import Annotated

import typer


def fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Named benchmarks; `hub list --available` names them.")
    ],
    mirror: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Fetch the same paths below this address; digests must still match."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fetch the data of named benchmarks, which are pinned by digest. A run never fetches them.

    What a broken download has brought is kept, and the next attempt goes on from there.
    """
    from rollouthub.cli.fetch.action import fetch_data

    fetch_data(names, mirror, as_json=as_json)
