"""`hub info`: shows what is known of a package."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from rollouthub.plugins.installed import Installation
    from rollouthub_registry.client.package_info import Offered
    from rollouthub_registry.trust.pins import Pins

_SHOWN_VERSIONS = 10


def info(
    package: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME[@RANGE]", help="The package, as namespace/name.")],
    source: Annotated[
        str | None,
        typer.Option(
            "--registry", metavar="URL", help="The registry; by default the one that the namespace comes from."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which versions of a package are installed and offered, and whether the key that signed it is trusted."""
    import os

    from rich.text import Text

    from rollouthub.cli.console import remarks, results
    from rollouthub.errors import HubError, UsageError
    from rollouthub.event_loop import run_async
    from rollouthub.plugins.installed import installations
    from rollouthub.text import one_line
    from rollouthub_registry.client.address import registry_url
    from rollouthub_registry.client.package_info import as_json as all_of_it
    from rollouthub_registry.client.package_info import look_up
    from rollouthub_registry.client.registries import Registries
    from rollouthub_registry.client.version_ranges import VersionRequest
    from rollouthub_registry.trust.keys import config_folder
    from rollouthub_registry.trust.pin_store import TrustStore

    wanted, folder = VersionRequest.parse(package), config_folder(os.environ)
    url = registry_url(source) if source is not None else None
    pins = TrustStore(folder).pins()
    installed = [each for each in installations().all() if each.name == str(wanted.package)]
    offered, problem = None, None
    try:
        url = url or Registries.load(folder, os.environ).source_of(wanted.package.namespace)
        offered = run_async(look_up, url, wanted)
    except HubError as error:
        if not installed and isinstance(error, UsageError):
            raise
        problem = one_line(str(error), 2000)
    if as_json:
        typer.echo(json.dumps(all_of_it(wanted, installed, offered, problem, pins)))
    else:
        for line in _lines(str(wanted.package), installed, offered, pins):
            results().print(line)
        if problem is not None:
            remarks().print(Text.assemble(("error: ", "bold red"), problem))
    if problem is not None:
        raise typer.Exit(1)


def _lines(name: str, installed: "Sequence[Installation]", offered: "Offered | None", pins: "Pins") -> "Iterator[Text]":
    from rich.text import Text

    from rollouthub.plugins.manifest import load_manifest
    from rollouthub_registry.client.package_info import declared_agent, differing, unpromised_in

    yield Text(name, "bold")
    for each in installed:
        dependencies = len(each.locked.dependencies)
        secrets = f", needs {', '.join(each.secrets)}" if each.secrets else ""
        yield _line(
            "installed",
            f"{each.locked.version}, from {each.locked.source or 'a file'}, {dependencies} dependencies{secrets}",
        )
        yield _line("", f"{each.locked.bundle or 'no bundle'}, in {each.file.parent}")
        if each.needs_no_wall:
            yield _line("", f"no wall: you trust it (hub trust remove {each.name})", "yellow")
        if (agent := declared_agent(each)) is not None:
            yield _line("", f"played by {agent} unless -a names another")
        for line in unpromised_in(load_manifest(each.file)):
            yield _line("", f"not promised: {line}", "yellow")
    if not installed:
        yield _line("installed", "nothing")
    if offered is not None:
        yield from _offered_lines(offered, pins)
        for version in differing(installed, offered):
            said = f"{version} is offered with other bytes than are installed; a version never changes: tell its owner"
            yield _line("beware", said, "bold red")


def _offered_lines(offered: "Offered", pins: "Pins") -> "Iterator[Text]":
    from rollouthub_registry.bundle.attestation import audit_words
    from rollouthub_registry.client.package_info import standing

    yield _line("registry", offered.source)
    chosen, said = offered.chosen, offered.said
    if chosen is None or said is None:
        yield _line("offered", "no version that will do", "yellow")
    else:
        key = standing(chosen.key_id, chosen.release.package.namespace, pins)
        yield _line("offered", f"{chosen.release.version}, {chosen.size:,} bytes, published {chosen.published_at}")
        if chosen.yanked is not None:
            yield _line("", f"yanked: {chosen.yanked or 'no reason was given'}", "bold red")
        yield _line("", chosen.description)
        yield _line("digest", chosen.digest)
        yield _line("key", f"{chosen.key_id} ({key})", "bold red" if key == "not the pinned one" else "")
        checks = "passed" if chosen.checks_passed else "FAILED, and it was published nevertheless"
        yield _line("checks", checks, "" if chosen.checks_passed else "bold red")
        audit = said.predicate.audit
        yield _line("audit", audit_words(audit), "" if audit is None or audit.is_sound else "bold red")
        if (later := offered.audit) is not None:
            words = f"{audit_words(later.audit)}, by the key {later.key_id} of who keeps the registry"
            yield _line("audited", words, "" if later.audit.is_sound else "bold red")
        for each in chosen.baselines[:5]:
            yield _line("baseline", f"{each.mean_reward:.3f} by {each.model} over {each.samples} samples")
        if chosen.difficulty is not None:
            yield _line("difficulty", f"{chosen.difficulty:.3f}")
        yield _line("licence", chosen.licence or "none is named")
        yield _line("secrets", ", ".join(said.secrets) or "needs none")
        for number, line in enumerate(said.unpromised):
            yield _line("" if number else "unpromised", line, "yellow")
        if chosen.tags:
            yield _line("tags", ", ".join(chosen.tags))
    for offer in offered.versions[:_SHOWN_VERSIONS]:
        mark = f" yanked: {offer.yanked or 'no reason was given'}" if offer.yanked is not None else ""
        yield _line("version", f"{offer.release.version}{mark}", "yellow" if mark else "")
    if len(offered.versions) > _SHOWN_VERSIONS:
        yield _line("", f"and {len(offered.versions) - _SHOWN_VERSIONS} more; --json has all of them")


def _line(label: str, text: str, style: str = "") -> "Text":
    from rich.text import Text

    from rollouthub.text import one_line

    return Text.assemble((f"{label:<11}", "dim"), (one_line(text), style))
