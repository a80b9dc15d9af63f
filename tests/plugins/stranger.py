"""A distribution of somebody else's on the path, which registers plug-ins as any installed one does."""

import sys
from pathlib import Path

import pytest

from rollouthub.plugins.entry_points import plugins

NAME = "acme-plugins"


def write_distribution(site: Path, group: str, name: str, value: str) -> Path:
    """Register `name = value` under a group of entry points, in a folder that goes on the path."""
    info = site / "acme_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    return site


def register(site: Path, monkeypatch: pytest.MonkeyPatch, group: str, name: str, value: str) -> None:
    """Register a plug-in of a stranger's in this process, for as long as the test runs."""
    monkeypatch.setattr(sys, "path", [str(write_distribution(site, group, name, value)), *sys.path])
    assert plugins(group)[name].distribution == NAME


def names_of(group: str, stranger: str) -> list[str]:
    """Every plug-in that is installed here, and the stranger's."""
    return [*plugins(group), stranger]
