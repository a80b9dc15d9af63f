"""Shell completion of environment, agent, model and run names; imports no plug-in."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

Kind = Literal["environment", "agent", "model", "run", "format"]
Completer = Callable[[str], list[str]]
# Shells evaluate what is offered (zsh) or put it on the line as it is (bash).
_PLAIN = re.compile(r"[\w@%+=:,./-]+")


def completer(kind: Kind) -> Completer:
    """The completion function for an argument or option that takes names of this kind."""
    known = {"environment": environments, "agent": agents, "model": models, "run": runs, "format": export_formats}
    return known[kind]


def among(words: Iterable[str]) -> Completer:
    """A completion function that offers these words."""

    def completed(incomplete: str) -> list[str]:
        return _begun(words, incomplete)

    return completed


def environments(incomplete: str) -> list[str]:
    """Registered and installed environments, or paths once the word contains a `/` or starts with a dot."""
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
    """Mock models, and the models that `hub serve model` is serving; names of other models are not known here."""
    from rollouthub.models.mock.mock_name import KINDS
    from rollouthub.models.registered import registrations, registry_folder

    kept = (found.full_name for found in registrations(registry_folder(os.environ.get)))
    return _begun((*(f"mock/{kind}" for kind in KINDS), *kept), incomplete)


def runs(incomplete: str) -> list[str]:
    """`last`, then the names of runs in runs/ and the user's own store, the most recently changed first."""
    from rollouthub.cli.find_run import run_names

    return _begun(("last", *run_names()), incomplete)


def environments_or_runs(incomplete: str) -> list[str]:
    """Environments, then runs."""
    return [*environments(incomplete), *runs(incomplete)]


def export_formats(incomplete: str) -> list[str]:
    """The formats of full records, and the registered training formats."""
    from rollouthub.cli.export.format_names import RECORDS, training_formats

    return _begun((*RECORDS, *training_formats()), incomplete)


def report_formats(incomplete: str) -> list[str]:
    """The registered formats of reports."""
    from rollouthub.plugins.entry_points import VIEWS, plugins

    return _begun(plugins(VIEWS), incomplete)


def _paths(incomplete: str) -> list[str]:
    """Paths that begin with the typed text: Python files and environment folders, and other folders with a final
    slash.
    """
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
    return [name for name in found if _is_plain(name)]


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    """Names that begin with the typed text, without duplicates and without names that a shell would have to quote."""
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete) and _is_plain(name)]


def _is_plain(name: str) -> bool:
    return _PLAIN.fullmatch(name) is not None and name.isprintable() and not name.startswith("-")
