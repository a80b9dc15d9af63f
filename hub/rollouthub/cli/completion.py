"""What a shell completes: names of environments, agents, models and runs. No plug-in is imported to name it."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

Kind = Literal["environment", "agent", "model", "run"]
Completer = Callable[[str], list[str]]


def completer(kind: Kind) -> Completer:
    """The completion of an argument or option that takes names of this kind."""
    return {"environment": environments, "agent": agents, "model": models, "run": runs}[kind]


def environments(incomplete: str) -> list[str]:
    """Registered and installed environments; files and packages of the working folder, where a path is begun."""
    from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
    from rollouthub.plugins.installed import installations

    if ("/" in incomplete or incomplete.startswith(".")) and (paths := _paths(incomplete)):
        return paths
    installed = (installation.name for installation in installations().readable()[0])
    return _begun((*plugins(ENVIRONMENTS), *installed), incomplete)


def agents(incomplete: str) -> list[str]:
    """Registered agents."""
    from rollouthub.plugins.entry_points import AGENTS, plugins

    return _begun(plugins(AGENTS), incomplete)


def models(incomplete: str) -> list[str]:
    """Mock models, and the models that `hub serve model` keeps on a cluster; others are their servers' to name."""
    from rollouthub.models.mock.mock_name import KINDS
    from rollouthub.models.registered import PROVIDER, registrations, registry_folder

    kept = (f"{PROVIDER}/{found.model}" for found in registrations(registry_folder(os.environ.get)))
    return _begun((*(f"mock/{kind}" for kind in KINDS), *kept), incomplete)


def runs(incomplete: str) -> list[str]:
    """`last`, and the runs in runs/ and the user's own store, newest first."""
    from rollouthub.cli.find_run import RUNS, newest_first

    return _begun(("last", *(entry.directory.name for entry in newest_first(RUNS))), incomplete)


def _paths(incomplete: str) -> list[str]:
    """Python files, and folders with an `env.toml`; other folders are offered to be entered."""
    folder, _, begun = incomplete.rpartition("/")
    found: list[str] = []
    try:
        for entry in sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir()):
            if entry.name.startswith(begun) and (begun or not entry.name.startswith(".")):
                name = f"{folder}/{entry.name}" if "/" in incomplete else entry.name
                if entry.suffix == ".py" or (entry / "env.toml").is_file():
                    found.append(name)
                elif entry.is_dir():
                    found.append(f"{name}/")
    except OSError:
        return []
    return [name for name in found if name.isprintable()]


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that begin so, each once; a name that a terminal would not show as it is, is left out."""
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete) and name.isprintable()]
