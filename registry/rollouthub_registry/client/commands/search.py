"""`hub search`: searches registries."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from rollouthub_registry.client.combined_search import Findings
    from rollouthub_registry.client.offer import Offer
    from rollouthub_registry.client.registries import Registries


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", help="Words that must all match; without any, everything is listed."),
    ] = None,
    sources: Annotated[
        list[str] | None, typer.Option("--registry", metavar="URL", help="Search only this registry; repeatable.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="The order: relevance, downloads, updated, name, hardest or easiest.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only environments with this tag.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find environments in the registries.

    All registries of `hub registry list` are asked at once. A registry that does not answer is named, the results of
    the others are shown, and the exit code is 1.
    """
    import os

    from rich.text import Text

    from rollouthub.cli.console import remarks, results
    from rollouthub.errors import UsageError
    from rollouthub.event_loop import run_async
    from rollouthub.text import one_line
    from rollouthub_registry.client.address import registry_url
    from rollouthub_registry.client.combined_search import SearchRequest, check_order, find
    from rollouthub_registry.client.registries import Registries
    from rollouthub_registry.trust.keys import config_folder

    check_order(sort)
    registries = Registries.load(config_folder(os.environ), os.environ)
    urls = tuple(dict.fromkeys(map(registry_url, sources))) if sources else registries.urls
    found = run_async(find, urls, SearchRequest(" ".join(words or ()), sort, tag, limit))
    if as_json:
        typer.echo(json.dumps(_as_json(found, registries)))
    elif found.hits:
        results().print(_table(found, registries, several=len(urls) > 1))
    elif not found.failures:
        remarks().print("nothing was found")
    for problem in found.failures.values() if not as_json else ():
        remarks().print(Text.assemble(("error: ", "bold red"), one_line(str(problem), 1000)))
    if found.failures:
        # One that was named just now and is none was mistyped.
        is_usage = sources and all(isinstance(problem, UsageError) for problem in found.failures.values())
        raise typer.Exit(2 if is_usage else 1)


def _table(found: "Findings", registries: "Registries", *, several: bool) -> Any:
    from rich.table import Table
    from rich.text import Text

    from rollouthub.text import one_line
    from rollouthub_registry.client.combined_search import is_chosen

    table = Table(box=None, pad_edge=False)
    for column in ("environment", "version", "checks", "difficulty"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is")
    table.add_column("from", overflow="fold")
    for hit in found.hits:
        offer = hit.offer
        where = Text(hit.source)
        if several and not is_chosen(hit, registries):
            where.append(" (its namespace comes from elsewhere)", "yellow")
        table.add_row(
            Text(str(offer.release.package)),
            Text(str(offer.release.version)),
            _checks(offer),
            "" if offer.difficulty is None else f"{offer.difficulty:.2f}",
            Text(one_line(offer.description, 120)),
            where,
        )
    return table


def _checks(offer: "Offer") -> "Text":
    """Whether the checks passed when it was published, and no audit found anything since."""
    from rich.text import Text

    from rollouthub.text import one_line

    if not offer.checks_passed:
        return Text("failed", "bold red")
    if offer.audit is not None and not offer.audit.sound:
        return Text(f"audit: {one_line(', '.join(offer.audit.broken), 60)}", "bold red")
    return Text("audited" if offer.audit is not None else "passed", "green")


def _as_json(found: "Findings", registries: "Registries") -> dict[str, Any]:
    from rollouthub_registry.client.combined_search import is_chosen

    hits = [
        {**offer_json(hit.offer), "from": hit.source, "is_namespace_source": is_chosen(hit, registries)}
        for hit in found.hits
    ]
    failures = [{"registry": url, "error": str(problem)} for url, problem in found.failures.items()]
    return {"results": hits, "failures": failures}


def offer_json(offer: "Offer") -> dict[str, Any]:
    """An offer as commands print it."""
    held = offer.model_dump(mode="json", exclude={"release"})
    return {"name": str(offer.release.package), "version": str(offer.release.version), **held}
