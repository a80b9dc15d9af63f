"""Collects an episode's artifacts once, after the seal and before the verdict."""

import logging
import posixpath
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import Any

import anyio
from anyio import to_thread
from pydantic_core import to_json

from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.event_loop import call_hook
from rollouthub.sandbox import MIB, File, FileEntry, Sandbox, SandboxFileError
from rollouthub.score import STATE, UNKEEPABLE, CollectedArtifacts, KeptArtifact

logger = logging.getLogger(__name__)

MOST_BYTES = 32 * MIB
"""Most bytes of an episode's artifacts together."""
_MOST_REASONS = 20
"""Most files named as left out, because an agent decides how many there are."""
_MOST_LISTED = 1_000_000
_NO_FOLDER = ("ENOENT", "ENOTDIR", "ELOOP")
_KINDS = {"symlink": "a symbolic link", "other": "a pipe, a socket or a device"}


def has_artifacts(environment: AnyEnvironment) -> bool:
    """Whether an environment keeps its state or files at the seal."""
    is_own = environment.artifacts is not Environment.artifacts
    return environment.scores_states or is_own or _collects_itself(environment)


def _collects_itself(environment: AnyEnvironment) -> bool:
    return environment.collect_artifacts is not Environment.collect_artifacts


async def collect_artifacts(
    environment: Environment[Any], sandbox: Sandbox | None, seconds: float
) -> CollectedArtifacts:
    """The artifacts that an environment declares, and the reasons why some are missing.

    The agent decides which files exist and how large they are, so an artifact that cannot be collected is no fault; if
    the agent's files are the cause, the reason begins with `UNKEEPABLE`. Links, devices and sockets are never
    collected.
    """
    found: list[KeptArtifact] = []
    missing: list[str] = []
    try:
        with anyio.move_on_after(seconds) as scope:
            if _collects_itself(type(environment)):
                collected = await environment.collect_artifacts(MOST_BYTES)
                found, missing = [*collected.kept], [*collected.missing]
            elif sandbox is not None and (paths := list(environment.artifacts())):
                files = await sandbox.collect(paths, max_bytes=MOST_BYTES)
                found += await to_thread.run_sync(_kept, files)
                missing += await _left_out(sandbox, paths, {f"/{file.path}" for file in files})
            if environment.scores_states:
                state = await call_hook(environment.snapshot)
                found.append(await to_thread.run_sync(lambda: KeptArtifact.of(STATE, to_json(state))))
        if scope.cancelled_caught:
            missing.append(f"not collected within {seconds:g} s")
    except SandboxFileError as error:
        missing.append(f"{UNKEEPABLE}: {error}"[:300])
    except Exception as error:
        logger.info("artifacts of task %r are missing: %s", environment.task.id, error)
        missing.append(f"{type(error).__name__}: {error}"[:300])
    if sum(len(each.data) for each in found) > MOST_BYTES:
        missing.append(f"{UNKEEPABLE}: more than {MOST_BYTES:,} bytes")
        found = []
    return CollectedArtifacts(found, missing)


def _kept(files: Sequence[File]) -> list[KeptArtifact]:
    return [KeptArtifact.of(str(PurePosixPath("/", file.path)), file.data) for file in files]


async def _left_out(sandbox: Sandbox, paths: Sequence[str], collected: Collection[str]) -> list[str]:
    """The reasons why something at or below the declared paths was not collected; what is not there at all needs none.

    A file that was listed and not collected lies behind a link.
    """
    reasons: dict[str, str] = {}
    for path in map(posixpath.normpath, paths):
        entries = [
            *(entry for entry in await _listed(sandbox, posixpath.dirname(path)) if entry.path == path),
            *await _listed(sandbox, path, recursive=True),
        ]
        for entry in entries:
            kind = _KINDS.get(entry.kind) or ("behind a symbolic link" if entry.kind == "file" else None)
            if kind is not None and entry.path not in collected:
                reasons.setdefault(entry.path, f"{UNKEEPABLE}: {entry.path} is {kind}"[:300])
    kept = list(reasons.values())[:_MOST_REASONS]
    return kept if len(reasons) <= _MOST_REASONS else [*kept, f"{UNKEEPABLE}: and {len(reasons) - _MOST_REASONS} more"]


async def _listed(sandbox: Sandbox, path: str, *, recursive: bool = False) -> list[FileEntry]:
    try:
        return await sandbox.list_files(path, recursive=recursive, max_entries=_MOST_LISTED)
    except SandboxFileError as error:
        if error.reason not in _NO_FOLDER:
            raise
        return []
