"""Checks of this machine and installation: versions, disk, open files, extras, plug-ins, credentials."""

import importlib.util
import os
import resource
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.analysis.checkup.machine_speed import machine_findings
from rollouthub.analysis.checkup.ray_check import ray_findings
from rollouthub.errors import HubError
from rollouthub.models.credentials import load_credentials
from rollouthub.plugins.entry_points import AGENTS, ENVIRONMENTS, plugins
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.extras import pip_install
from rollouthub.telemetry.trackers.tracker import tracker_packages

EXTRAS = {
    "data": ("pyarrow", "Parquet and Hugging Face data sets"),
    "vllm": ("vllm", "serving models on this machine"),
}
KEYS = (
    "HOSTED_VLLM_API_BASE",
    "HOSTED_VLLM_API_KEY",
    "SGLANG_API_BASE",
    "SGLANG_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
)
DOCTORS = "rollouthub.doctors"
"""Entry-point group of functions without arguments that yield `Finding`s of their own."""
LEAST_FREE_BYTES = 1 << 30
LEAST_OPEN_FILES = 4096


def examine() -> list[Finding]:
    """Run all checks of this machine and return their findings."""
    return [
        _python(),
        *machine_findings(),
        _sqlite(),
        _disk(),
        _open_files(),
        *_extras(),
        _sglang(),
        *ray_findings(None),
        *_trackers(),
        *_plugins(),
        *_siblings(),
        *_keys(),
    ]


def _python() -> Finding:
    says = f"rollouthub {version('rollouthub')} on Python {sys.version.split()[0]}, {os.cpu_count()} cores"
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio's own loop"
    return Finding("python", "ok", f"{says}, {loop}")


def _sqlite() -> Finding:
    with tempfile.TemporaryDirectory(dir=Path.cwd() if os.access(Path.cwd(), os.W_OK) else None) as folder:
        connection = sqlite3.connect(Path(folder) / "probe.db")
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        connection.close()
    if mode != "wal":
        return Finding(
            "sqlite", "broken", f"no write-ahead log here (mode {mode})", "keep runs on a local disk: -o DIR"
        )
    return Finding("sqlite", "ok", f"{sqlite3.sqlite_version} with write-ahead log")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    says = f"{free / (1 << 30):.1f} GiB free here"
    if free < LEAST_FREE_BYTES:
        return Finding("disk", "broken", says, "free some space, or put runs elsewhere: hub run … -o DIR")
    return Finding("disk", "ok", says)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    says = f"{soft} at once (hard limit {hard}, which runs and servers raise theirs to)"
    if 0 <= hard < LEAST_OPEN_FILES:
        return Finding("open files", "missing", f"{says}; 2,000 episodes in flight want more", "ulimit -n 65536")
    return Finding("open files", "ok", says)


def _extras() -> Iterator[Finding]:
    for extra, (module, purpose) in EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            yield Finding(f"extra {extra}", "missing", purpose, pip_install(extra))
        else:
            yield Finding(f"extra {extra}", "ok", purpose)


def _sglang() -> Finding:
    purpose = "serving models on this machine (hub serve model --engine sglang)"
    found = shutil.which("sglang", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    if found is None:
        return Finding("sglang", "missing", purpose, "pip install sglang, in an environment of its own on PATH")
    return Finding("sglang", "ok", f"{found}, {purpose}")


def _trackers() -> Iterator[Finding]:
    for name, is_there in tracker_packages().items():
        if is_there:
            yield Finding(f"tracker {name}", "ok", "can draw a run's curves")
        else:
            yield Finding(f"tracker {name}", "missing", f"curves in {name}", pip_install(name))


def _plugins() -> Iterator[Finding]:
    try:
        environments, agents = plugins(ENVIRONMENTS), plugins(AGENTS)
    except HubError as error:
        yield Finding("plug-ins", "broken", str(error))
        return
    for name in environments:
        try:
            find_environment(name)
        except HubError as error:
            yield Finding(f"environment {name}", "broken", str(error))
    yield Finding("plug-ins", "ok", f"{len(environments)} environments, {len(agents)} agents")


def _siblings() -> Iterator[Finding]:
    """Yield the findings of other packages' checks, such as those of container engines."""
    for plugin in plugins(DOCTORS).values():
        look: Any = plugin.entry.load()
        yield from look()


def _keys() -> Iterator[Finding]:
    """Yield one finding for each known credential variable that is set; never its value."""
    try:
        credentials = load_credentials(os.environ, Path.cwd())
    except HubError as error:
        yield Finding("credentials", "broken", str(error))
        return
    for name in KEYS:
        if credentials.get(name):
            yield Finding(name, "ok", "set")
