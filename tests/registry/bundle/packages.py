"""A package to bundle, and the means to write archives that no build would write."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rollouthub_registry.bundle.encoding import END, GZIP_HEADER, StoredGzip, header, padding

MANIFEST = """\
name = "acme/words"
version = "1.2.0"

[server]
command = ["python", "{folder}/server.py"]

[tasks]
test = "tasks.jsonl"

[verifier]
command = ["python", "{folder}/verify.py"]
"""
FILES = {
    "env.toml": MANIFEST,
    "server.py": "print('a server')\n",
    "verify.py": "print('a verifier')\n",
    "tasks.jsonl": '{"prompt": "Say déjà vu."}\n',
    "data/words.txt": "déjà\nvu\n",
}
_RAISED = "raise SystemExit('this must never run')\n"


def write_package(folder: Path, **changes: str) -> Path:
    """A folder with a small environment; `changes` are files beside."""
    for path, text in {**FILES, **changes}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return folder


def member(path: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A tar entry with any fields."""
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(content), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def plain_members() -> list[tuple[tarfile.TarInfo, bytes]]:
    """What an honest build of the small package puts in."""
    return [member(path, FILES[path].encode()) for path in sorted(FILES)]


def stored(tar: bytes) -> bytes:
    """Tar bytes in the one gzip stream they have."""
    sink = io.BytesIO()
    stream = StoredGzip(sink)
    stream.write(tar)
    stream.finish()
    return sink.getvalue()


def tar_bytes(members: Sequence[tuple[tarfile.TarInfo, bytes]], end: bytes = END) -> bytes:
    """A tar archive of just these entries, in their order."""
    parts: list[bytes] = []
    for info, content in members:
        parts += [info.tobuf(tarfile.USTAR_FORMAT), content, bytes(padding(len(content)))]
    return b"".join(parts) + end


def write_archive(file: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """An archive of these entries, right in all else."""
    file.write_bytes(stored(tar_bytes(members)))
    return file


def compressed(tar: bytes) -> bytes:
    """Tar bytes in a gzip stream that any `tar` reads, with the header of ours."""
    return GZIP_HEADER + gzip.compress(tar, 1, mtime=0)[len(GZIP_HEADER) :]


def bomb_bytes() -> bytes:
    """A gzip of 64 MB of zeros, about 300 kB long, with a manifest first."""
    start = header("env.toml", len(MANIFEST), False) + MANIFEST.encode() + bytes(padding(len(MANIFEST)))
    return compressed(start + header("zeros", 60 * 2**20, False) + bytes(60 * 2**20) + END)


def wheel_bytes(files: dict[str, str] | None = None, change: Callable[[zipfile.ZipFile], None] | None = None) -> bytes:
    """A compressed wheel `words-1.2.0-py3-none-any.whl`."""
    info = "words-1.2.0.dist-info"
    content = {
        "words/__init__.py": _RAISED,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: words\nVersion: 1.2.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
        **(files or {}),
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        if change is not None:
            change(archive)
    return sink.getvalue()


def small_wheel(distribution: str, version: str) -> bytes:
    """A wheel that holds its metadata alone."""
    info = f"{distribution}-{version}.dist-info"
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return sink.getvalue()
