"""Tool results for the agent: how a command ended or why a file is unavailable, within a size limit."""

from collections.abc import Sequence

from rollouthub.sandbox import FileEntry, Finished, SandboxFileError

_REASONS = {
    "ENOENT": "there is no such file",
    "ENOTDIR": "a part of its path is no folder",
    "EISDIR": "it is a folder",
    "EACCES": "permission denied",
    "EPERM": "permission denied",
    "EROFS": "this part of the file system is read-only",
    "ENOSPC": "the disk is full",
    "EDQUOT": "the disk is full",
    "EFBIG": "it is too large; look at parts of it with bash",
    "ELOOP": "its links go in a circle",
    "ENAMETOOLONG": "its name is too long",
}


def bounded(text: str, most_bytes: int) -> str:
    """The beginning and the end of a text, with a line between them on how many bytes are missing."""
    data = text.encode(errors="replace")
    if len(data) <= most_bytes:
        return text
    half = most_bytes // 2
    head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
    return f"{head}\n[… {len(data) - 2 * half:,} bytes left out …]\n{tail}"


def ended(finished: Finished, timeout_seconds: float) -> str:
    """A command's output, and how it ended."""
    if finished.timed_out:
        ending = f"stopped after {timeout_seconds:g} seconds, with all its processes"
    elif finished.exit_status is not None and finished.exit_status < 0:
        ending = f"ended by signal {-finished.exit_status}"
    else:
        ending = f"exit status {finished.exit_status}"
    if finished.out_of_memory:
        ending += "; a process was ended for want of memory"
    if finished.survivors:
        ending += f"; {finished.survivors} running in the background"
    parts = [text for text in (finished.stdout.text.rstrip("\n"), finished.stderr.text.rstrip("\n")) if text]
    return "\n".join([*parts, f"[{ending}]"])


def why(error: SandboxFileError) -> str:
    """The reason why a file could not be read or written, in words."""
    return _REASONS.get(error.reason, error.reason)


def lines(text: str, first: int, count: int, most_bytes: int) -> str:
    """Some lines of a file, with their numbers and the number of all lines."""
    found = text.splitlines(keepends=True)
    chosen = found[first - 1 : first - 1 + count]
    shown = bounded("".join(chosen), most_bytes)
    if len(chosen) == len(found):
        return shown or "[the file is empty]"
    if not chosen:
        return f"[the file has {len(found)} lines]"
    return f"{shown.rstrip(chr(10))}\n[lines {first} to {first - 1 + len(chosen)} of {len(found)}]"


def listing(entries: Sequence[FileEntry], most_bytes: int) -> str:
    """A folder's entries, one per line."""
    marks = {"directory": "/", "symlink": "@", "other": "?"}
    rows = [
        f"{entry.path}{marks.get(entry.kind, '')}" + (f"  {entry.bytes:,} bytes" if entry.kind == "file" else "")
        for entry in entries
    ]
    return bounded("\n".join(rows), most_bytes) or "[the folder is empty]"
