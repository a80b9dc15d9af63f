"""Snapshots of a process sandbox's files."""

from collections.abc import Sequence
from dataclasses import replace

from rollouthub.errors import SandboxError
from rollouthub.sandbox import FILE_BYTES, File, SandboxFileError
from rollouthub_sandboxes.supervisor.sandbox import SupervisedSandbox


class FileSnapshot:
    """The regular files of a sandbox's writable folders, held in memory. Links and empty folders are not saved."""

    def __init__(self, id: str, folders: Sequence[str], files: Sequence[Sequence[File]]) -> None:
        self.id = id
        self._folders, self._files = folders, files

    @property
    def changed(self) -> list[str]:
        """The paths of all its files: a fresh sandbox has none of them."""
        return sorted(
            f"{folder}/{file.path}" for folder, files in zip(self._folders, self._files, strict=True) for file in files
        )

    async def restored(self, paths: Sequence[str]) -> "FileSnapshot":
        """A copy without the files at or below these paths, since a fresh sandbox has none of them."""
        above = tuple(f"{path}/" for path in paths)
        kept = [
            [file for file in files if not f"{folder}/{file.path}/".startswith(above)]
            for folder, files in zip(self._folders, self._files, strict=True)
        ]
        return self if kept == self._files else FileSnapshot(f"{self.id}-restored", self._folders, kept)

    async def discard(self) -> None:
        """Free the files."""
        self._folders, self._files = (), ()

    async def restore(self, sandbox: SupervisedSandbox, folders: Sequence[str]) -> None:
        """Write the files into a fresh sandbox that has the same number of folders."""
        if len(folders) != len(self._folders):
            raise SandboxError(
                f"snapshot {self.id} of {len(self._folders)} folders does not fit a sandbox with {len(folders)}",
                retryable=False,
            )
        for folder, files in zip(folders, self._files, strict=True):
            await sandbox.place(files, folder)


async def take_snapshot(sandbox: SupervisedSandbox, folders: Sequence[str]) -> FileSnapshot:
    """Save the files in these folders.

    Raises:
        SandboxError: the files are larger than a snapshot may be.
    """
    left, kept = FILE_BYTES, list[Sequence[File]]()
    try:
        for folder in folders:
            files = await sandbox.collect([folder], max_bytes=left)
            left -= sum(len(file.data) for file in files)
            start = len(folder.strip("/")) + 1
            kept.append([replace(file, path=file.path[start:]) for file in files])
    except SandboxFileError as error:
        raise SandboxError(f"no snapshot of sandbox {sandbox.id} could be taken: {error}", retryable=False) from error
    return FileSnapshot(f"{sandbox.id}-files", folders, kept)
