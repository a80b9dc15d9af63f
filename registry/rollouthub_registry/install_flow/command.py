"""The commands `hub install`, `upgrade`, `remove` and `lock`; imports happen when they run, so that `--help` is
instant.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli.options import QuietOption

if TYPE_CHECKING:
    from rollouthub_registry.install_flow.install_result import InstallResult
    from rollouthub_registry.install_flow.user_folders import UserFolders

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
RehearsalOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
FailingOption = Annotated[
    bool, typer.Option("--allow-failing-checks", help="Also install what was published although it failed its checks.")
]
NoLockOption = Annotated[bool, typer.Option("--no-lock", help="Leave the project's hub.lock as it is.")]
EnvironmentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENV…",
        help="namespace/name or namespace/name@RANGE; a folder (./dice); an archive; git+https://…@COMMIT",
        show_default=False,
    ),
]
RegistryOption = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL", help="Install from this registry, not from the namespace's own."),
]
LockedOption = Annotated[bool, typer.Option("--locked", help="Install exactly what the nearest hub.lock names.")]
LockFileOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Install exactly what this lock file names.")]
BuildOption = Annotated[
    bool,
    typer.Option("--build", help="Build the wheel of a folder or a repository; its build may run code that it holds."),
]
UnsignedOption = Annotated[bool, typer.Option("--unsigned", help="Also install archives without a signature.")]
ReinstallOption = Annotated[bool, typer.Option("--reinstall", help="Install again what is already installed.")]


def install(
    environments: EnvironmentsArgument = None,
    source: RegistryOption = None,
    locked: LockedOption = False,
    lock: LockFileOption = None,
    build: BuildOption = False,
    unsigned: UnsignedOption = False,
    allow_failing_checks: FailingOption = False,
    reinstall: ReinstallOption = False,
    no_lock: NoLockOption = False,
    dry_run: RehearsalOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Install environments, each with an interpreter of its own; their code is not run by installing them.

    Exit codes: 0 installed, or there already; 1 a registry could not be reached; 2 refused, with nothing changed.
    """
    from functools import partial

    from rollouthub.cli.lock_options import lock_file
    from rollouthub.errors import ConfigError
    from rollouthub.event_loop import run_async
    from rollouthub_registry.install_flow.console import telling
    from rollouthub_registry.install_flow.locked_install import Restoration, restore
    from rollouthub_registry.install_flow.project_lock import lock_done
    from rollouthub_registry.install_flow.retrieval import Consent
    from rollouthub_registry.install_flow.transaction import InstallRequest, install_requested

    place, names, file = _place(), tuple(environments or ()), lock_file(locked, lock)
    told = telling(as_json or quiet)
    if file is not None:
        restoration = Restoration(file, names, source, build, reinstall, dry_run)
        done = run_async(restore, restoration, place, told)
        _show(place, done, None, as_json, quiet)
        return
    if not names:
        raise ConfigError("name what to install, for example `hub install namespace/name`, or add --locked")
    consent = Consent(to_failing_checks=allow_failing_checks, to_unsigned=unsigned, to_build=build)
    done = run_async(
        partial(install_requested, InstallRequest(names, source, consent, reinstall, dry_run), place, told)
    )
    kept = None if no_lock or dry_run else lock_done(done, place)
    _show(place, done, kept, as_json, quiet)


def upgrade(
    environments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ENV…", help="Installed environments; all of them by default.", show_default=False),
    ] = None,
    allow_failing_checks: FailingOption = False,
    no_lock: NoLockOption = False,
    dry_run: RehearsalOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Install newer versions of environments, from the registries they came from; old ones stay until `hub remove`."""
    from functools import partial

    from rollouthub.errors import UsageError
    from rollouthub.event_loop import run_async
    from rollouthub_registry.install_flow.console import telling
    from rollouthub_registry.install_flow.project_lock import lock_done
    from rollouthub_registry.install_flow.retrieval import Consent
    from rollouthub_registry.install_flow.upgrade import upgrade as upgrade_all

    place, told = _place(), telling(as_json or quiet)
    consent = Consent(to_failing_checks=allow_failing_checks)
    upgraded = run_async(partial(upgrade_all, tuple(environments or ()), consent, place, told, is_rehearsal=dry_run))
    kept = None if no_lock or dry_run else lock_done(upgraded.done, place, only_known=True)
    _show(place, upgraded.done, kept, as_json, quiet)
    if not upgraded.done and not upgraded.failed:
        told.note("nothing is installed; `hub install namespace/name` installs an environment")
    for error in upgraded.failed:
        told.warn(str(error))
    if upgraded.failed:
        raise typer.Exit(2 if all(isinstance(error, UsageError) for error in upgraded.failed) else 1)


def remove(
    environments: Annotated[
        list[str], typer.Argument(metavar="ENV[@VERSION]…", help="Environments, as `hub list` names them.")
    ],
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Remove every version of each environment.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove installed environments; trusted keys and locks stay as they are."""
    import json

    from rollouthub_registry.install_flow.console import write
    from rollouthub_registry.install_flow.removal import remove as remove_all

    removed = [str(release) for release in remove_all(environments, _place(), all_versions=all_versions)]
    if as_json:
        write(json.dumps({"removed": removed}))
        return
    for target in removed:
        write(f"removed {target}")


def lock(
    environments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV…",
            help="Environments; by default those in the lock or, without a lock, all that are installed.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--lock", metavar="FILE", help="The lock file; hub.lock in this folder by default.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if the lock would change.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the versions and digests of the environments that this project uses into hub.lock."""
    import json
    from dataclasses import asdict

    from rollouthub.plugins.lock import read_lock, remark_on_hub
    from rollouthub_registry.install_flow.console import telling, write
    from rollouthub_registry.install_flow.project_lock import differences, lock_here, lock_named

    place, names = _place(), tuple(environments or ())
    target = file or lock_here(place)
    if check:
        found = differences(names, target, place)
        told = telling(as_json)
        if (remark := remark_on_hub(read_lock(target), target)) is not None:
            told.warn(remark)
        if not found:
            told.note(f"{target} names what is here")
        if as_json:
            write(json.dumps({"lock": str(target), "differences": [asdict(each) for each in found]}))
        else:
            for each in found:
                write(str(each))
        raise typer.Exit(1 if found else 0)
    written = lock_named(names, target, place)
    if as_json:
        write(json.dumps({"lock": str(target), "environments": [each.name for each in written.environments]}))
        return
    write(f"{target}: {', '.join(f'{each.name} {each.version}' for each in written.environments)}")


def _place() -> "UserFolders":
    from rollouthub_registry.install_flow.user_folders import UserFolders

    return UserFolders.of(os.environ, Path.cwd())


def _show(place: "UserFolders", done: "list[InstallResult]", kept: Path | None, as_json: bool, quiet: bool) -> None:
    from rollouthub_registry.install_flow.console import done_json, show_done, write

    if as_json:
        write(done_json(done, kept, place.environ))
    elif not quiet:
        show_done(done, kept, place)
