"""`hub registry` with `hub registry audit`, which needs what publishing needs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli.options import TrustOption, WallOption
from rollouthub_registry.client.commands.registries import registry
from rollouthub_registry.server.command import JsonOption

if TYPE_CHECKING:
    from rollouthub_registry.publish.registry_audit import PackageAudit, RegistryAuditRequest

__all__ = ["registry"]


@registry.command("audit")
def audit_registry_command(
    url: Annotated[str, typer.Argument(metavar="REGISTRY", help="A registry's address, or its folder.")],
    packages: Annotated[
        list[str] | None,
        typer.Option("--package", metavar="NAMESPACE/NAME", help="Audit only this package; repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Only this probe or cheat, without the attacks; repeatable."),
    ] = None,
    add_cheat: Annotated[
        list[Path] | None,
        typer.Option("--add-cheat", metavar="FILE.py", help="Try a cheat of your own, too; the file is run."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Tasks of each package.")] = 8,
    seed: Annotated[int, typer.Option(help="Seeds tasks and episodes.")] = 0,
    time_limit: Annotated[str, typer.Option(metavar="TIME", help="Most time for one package.")] = "30m",
    wall: WallOption = "auto",
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit each package's newest version: installed apart, attacked, and some of its tasks audited.

    In a registry that is a folder, the result is signed with your key and kept beside the version: pages, search and
    `hub info` show it. Otherwise it is only printed.

    Exit codes: 0 nothing was found, 1 something was, or a package could not be audited, 2 usage, 130 interrupted.
    """
    from rollouthub.settings import seconds_of
    from rollouthub_registry.audit.audit_run import chosen
    from rollouthub_registry.audit.cheats import cheats_of_files
    from rollouthub_registry.check.check_request import CheckRequest
    from rollouthub_registry.check.thorough.attacks import ATTACKS
    from rollouthub_registry.client.address import registry_url
    from rollouthub_registry.publish.registry_audit import RegistryAuditRequest

    address = Path(url).absolute().as_uri() if Path(url).is_dir() else url
    probes = chosen(tuple(only or ()), tuple(cheats_of_files(add_cheat or [])))
    request = RegistryAuditRequest(
        registry_url(address),
        tuple(packages or ()),
        CheckRequest(limit=limit, seed=seed, wall="none" if trust else wall),
        probes,
        () if only else ATTACKS,
        is_whole=not only,
        seconds=seconds_of("--time-limit", time_limit),
    )
    raise typer.Exit(_run(request, as_json=as_json))


def _run(request: "RegistryAuditRequest", *, as_json: bool) -> int:
    import os

    from rich.text import Text

    from rollouthub.cli.console import remarks, results
    from rollouthub_registry.client.address import folder_of
    from rollouthub_registry.publish.registry_audit import audit_registry
    from rollouthub_registry.trust.keys import config_folder, load_key

    key = None if folder_of(request.url) is None else load_key(config_folder(os.environ) / "keys")
    aside = remarks()
    done: list[PackageAudit] = []

    def note(said: str) -> None:
        if aside.is_terminal:
            aside.print(Text(f"… {said}", style="dim"))

    for found in audit_registry(request, key, note):
        done.append(found)
        if not as_json:
            for line in _lines(found):
                results().print(line, soft_wrap=True)
    is_sound = all(found.audit is not None and found.audit.is_sound for found in done)
    if as_json:
        typer.echo(json.dumps({"registry": request.url, "packages": [found.as_json() for found in done]}))
    else:
        defective = sum(found.audit is not None and not found.audit.is_sound for found in done)
        failed = sum(found.audit is None for found in done)
        kept = "signed and kept in the registry" if key is not None else "printed only: the registry is not a folder"
        results().print(
            Text(f"{len(done)} packages: {defective} with defects, {failed} could not be audited; {kept}"),
            soft_wrap=True,
        )
    return 0 if is_sound else 1


def _lines(found: "PackageAudit") -> "list[object]":
    from rich.text import Text

    from rollouthub.text import one_line
    from rollouthub_registry.bundle.attestation import audit_words

    if found.audit is None:
        return [Text.assemble(("?", "yellow"), f"  {found.release}  could not be audited: {found.error}")]
    mark = ("✓", "green") if found.audit.is_sound else ("✗", "bold red")
    lines: list[object] = [Text.assemble(mark, f"  {found.release}  {audit_words(found.audit)}")]
    lines += [Text(f"     {one_line(problem)}") for problem in found.problems[:5]]
    if len(found.problems) > 5:
        lines.append(Text(f"     … and {len(found.problems) - 5} more; --json lists all", style="dim"))
    return lines
