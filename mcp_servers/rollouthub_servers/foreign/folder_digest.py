"""The digest of what an import copied: what was changed since then is noticed by it."""

import hashlib
from pathlib import Path


def digest_of_folder(folder: Path, *names: str) -> str:
    """Of the names and bytes of all files below some folders in a folder: `sha256:` and 64 hex digits.

    What Python leaves beside modules is none of them.
    """
    digest = hashlib.sha256()
    for file in sorted(each for name in names for each in (folder / name).rglob("*") if each.is_file()):
        if "__pycache__" not in file.parts:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(folder).as_posix()}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()}"
