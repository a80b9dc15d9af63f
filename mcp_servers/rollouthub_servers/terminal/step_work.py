"""The agent's work that the tests of a step are run on: a snapshot of its container, or the declared artifacts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Protocol

import anyio

from rollouthub.sandbox import File, Sandbox, Snapshot
from rollouthub_servers.terminal.entry_points import plugins
from rollouthub_servers.terminal.git_programs import git_programs
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.compose import MAIN
from rollouthub_servers.terminal.harbor.settings import ArtifactEntry
from rollouthub_servers.terminal.named_paths import above
from rollouthub_servers.terminal.protected_paths import Protected

PUBLISHED = "/logs/artifacts"
"""Folder that is always copied along with artifacts, declared or not."""


class StepWork(Protocol):
    """Work that can be put into a fresh sandbox, with or without some of its paths."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The files that a fresh sandbox starts from; None for the image's own."""
        ...

    @property
    def artifacts(self) -> Sequence[File]:
        """Files that are placed in it."""
        ...

    @property
    def crossed(self) -> str:
        """How the work is copied: `artifacts` or `snapshot`."""
        ...

    @property
    def changed(self) -> Sequence[str]:
        """The paths that differ from the image."""
        ...

    async def restored(self, paths: Sequence[str]) -> "StepWork":
        """The work with these paths, and all below them, as in the image; itself if nothing had to be restored."""
        ...

    async def discard(self) -> None:
        """Free its storage."""
        ...


@dataclass(frozen=True)
class SnapshotWork:
    """A snapshot of the agent's whole file system."""

    snapshot: Snapshot
    artifacts: Sequence[File] = ()
    crossed = "snapshot"

    @property
    def changed(self) -> Sequence[str]:
        """The paths that differ from the image."""
        return self.snapshot.changed

    async def restored(self, paths: Sequence[str]) -> "SnapshotWork":
        """The work with these paths as in the image.

        Raises:
            SandboxFileError: they cannot be restored.
            SandboxError: the engine failed.
        """
        base = await self.snapshot.restored(paths)
        return self if base is self.snapshot else SnapshotWork(base)

    async def discard(self) -> None:
        """Free the snapshot's storage."""
        with anyio.CancelScope(shield=True):
            await self.snapshot.discard()


@dataclass(frozen=True)
class ArtifactWork:
    """Files that are copied into a container of the image; empty for the image alone."""

    artifacts: Sequence[File] = ()
    snapshot = None
    crossed = "artifacts"

    @property
    def changed(self) -> Sequence[str]:
        """The files' paths."""
        return [f"/{file.path}" for file in self.artifacts]

    async def restored(self, paths: Sequence[str]) -> "ArtifactWork":
        """The work without the files at or below these paths."""
        gone = set(paths)
        kept = [file for file in self.artifacts if not gone.intersection((f"/{file.path}", *above(f"/{file.path}")))]
        return ArtifactWork(kept) if len(kept) < len(self.artifacts) else self

    async def discard(self) -> None:
        """Nothing is stored."""


async def programs_changed(
    image: Protected, agent: Sandbox, changed: Sequence[str], declared: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """The changed paths that affect the tests' programs: those that should affect no result, and the others.

    `declared` are the paths of artifacts: one that is itself in a protected place is what the task asks for.
    """
    quiet, loud = await anyio.to_thread.run_sync(image.sort, changed)
    wanted = {source for source in declared if image.holds(source)}
    if wanted:
        quiet, loud = (
            [path for path in paths if not wanted.intersection((path, *above(path)))] for paths in (quiet, loud)
        )
    loud += await git_programs(agent, changed, image.text)
    loud += await plugins(agent, changed, [path for path, kind in image.roots if kind == "python"])
    return quiet, list(dict.fromkeys(loud))


async def artifacts_of(
    task: HarborTask, step: Step, agent: Sandbox, beside: Mapping[str, Sandbox], max_bytes: int
) -> ArtifactWork:
    """Collect the declared artifacts, and what was published, from the agent's sandbox and its side-cars.

    Raises:
        SandboxFileError: they are larger than `max_bytes` together.
    """
    entries = (*task.artifacts(step), ArtifactEntry(source=PUBLISHED))
    sources = {entry.source: _absolute(entry.source, agent.workdir) for entry in entries}
    found: list[File] = []
    for name, sandbox in {MAIN: agent, **beside}.items():
        own = {sources[entry.source] for entry in entries if (entry.service or MAIN) == name}
        left = max_bytes - sum(len(file.data) for file in found)
        found += await sandbox.collect(sorted(own), max_bytes=left) if own else []
    dropped = [(sources[entry.source], entry.exclude) for entry in entries if entry.exclude]
    kept = [file for file in found if not any(_is_excluded(file, root, patterns) for root, patterns in dropped)]
    return ArtifactWork([File(file.path, file.data, file.mode | 0o444) for file in kept])


def declared(task: HarborTask, step: Step, workdir: str) -> list[str]:
    """The absolute paths of the artifacts that a task declares."""
    return [_absolute(entry.source, workdir) for entry in task.artifacts(step)]


def _absolute(source: str, workdir: str) -> str:
    return str(PurePosixPath(workdir) / source)


def _is_excluded(file: File, root: str, patterns: Sequence[str]) -> bool:
    path = PurePosixPath("/", file.path)
    if not path.is_relative_to(root):
        return False
    names = [*path.relative_to(root).parts, str(path.relative_to(root))]
    return any(fnmatch(name, pattern.rstrip("/")) for name in names for pattern in patterns)
