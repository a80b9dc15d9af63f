"""Compiles the supervisor's C source to static programs, one for each architecture, stored beside the source.

After a change of the source, `python -m rollouthub_sandboxes.supervisor.compilation` builds them again. The same source
and compiler give the same bytes on any machine and in any folder.
"""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rollouthub.processes import PYTHON

FOLDER = Path(__file__).parent
"""The folder of the source, with `bin/` for the programs built from it."""
ARCHITECTURES = ("aarch64", "x86_64")
"""The architectures that a supervisor is built for, in the kernel's words (`uname -m`)."""
COMPILER, COMPILER_VERSION = "ziglang", "0.17.1"
"""The Python package of the compiler (Zig); it brings musl for every target, so no other tool chain is needed."""
FLAGS = ("-std=c11", "-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror")
COMPILE_SECONDS = 600.0
"""Timeout of a compilation; the first for a target also compiles its C library, a minute or more."""
CACHE = FOLDER / ".compiled"
"""The compiler's cache, for this checkout alone: another user could write to a shared one."""
COMMAND = "python -m rollouthub_sandboxes.supervisor.compilation"
"""The command that builds every program that is older than its source."""


class CompilationError(Exception):
    """The compiler is not installed, or rejected the source."""


def sources(folder: Path) -> list[Path]:
    """The C files and headers of a supervisor, in a fixed order."""
    return sorted(file for file in folder.iterdir() if file.suffix in (".c", ".h"))


def source_digest(folder: Path) -> str:
    """SHA-256 (hex) of all that determines a supervisor: its source files, the compiler's version and its flags."""
    files = sources(folder)
    if not files:
        raise CompilationError(f"{folder} holds no C source of a supervisor")
    digest = hashlib.sha256(" ".join((COMPILER, COMPILER_VERSION, *FLAGS)).encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def program_path(folder: Path, architecture: str) -> Path:
    """Path of the program for an architecture, whether built or not."""
    return folder / "bin" / architecture


def recorded_digests(folder: Path, architecture: str) -> dict[str, str]:
    """SHA-256 (hex) of the `source` that a program was built from, and of the `program` itself; empty if none was
    built.
    """
    try:
        lines = _record(folder, architecture).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in lines)


def is_current(folder: Path, architecture: str) -> bool:
    """Whether the program for an architecture was built from the present source."""
    if not program_path(folder, architecture).is_file():
        return False
    return recorded_digests(folder, architecture).get("source") == source_digest(folder)


def has_compiler() -> bool:
    """Whether the right version of the compiler is installed; another one would give other bytes."""
    try:
        return importlib.metadata.version(COMPILER) == COMPILER_VERSION
    except importlib.metadata.PackageNotFoundError:
        return False


def compile_program(folder: Path, architecture: str, cache: Path) -> Path:
    """Build the program for an architecture and record the source's digest.

    `cache` keeps the C library between compilations: with it a compilation takes a second, without it up to a minute.
    The file is replaced at once, so that concurrent readers and builders never see a partial program.

    Raises:
        CompilationError: the compiler is not installed, or rejected the source.
    """
    if not has_compiler():
        raise CompilationError(f"no compiler: run `pip install {COMPILER}=={COMPILER_VERSION}` and try again")
    source, program = source_digest(folder), program_path(folder, architecture)
    program.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=program.parent) as work:
        made = Path(work, architecture)
        _run_compiler(folder, architecture, made, cache.resolve())
        made.chmod(0o755)
        record = Path(work, "digests")
        record.write_text(f"source {source}\nprogram {hashlib.sha256(made.read_bytes()).hexdigest()}\n")
        # The record comes last: whoever reads the new one finds the new program.
        made.replace(program)
        record.replace(_record(folder, architecture))
    return program


def _record(folder: Path, architecture: str) -> Path:
    return folder / "bin" / f"{architecture}.digests"


def _run_compiler(folder: Path, architecture: str, made: Path, cache: Path) -> None:
    """Compile in the source's own folder with relative names, so that no local path gets into the program."""
    names = [file.name for file in sources(folder) if file.suffix == ".c"]
    target = ["-target", f"{architecture}-linux-musl"]
    # -P: modules beside the source must not stand in for the standard library's.
    command = [*PYTHON, "-m", COMPILER, "cc", *target, *FLAGS, *names, "-o", str(made.resolve())]
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=COMPILE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        took = f"the compiler did not finish the supervisor for {architecture} in {COMPILE_SECONDS:.0f} s"
        raise CompilationError(took) from error
    if done.returncode != 0 or not made.is_file():
        said = (done.stdout + done.stderr).decode(errors="replace").strip()[-4000:]
        raise CompilationError(f"the compiler refused the supervisor for {architecture}:\n{said}")


def main() -> None:
    """Build every program that is older than its source, and print what was built."""
    try:
        for architecture in ARCHITECTURES:
            if is_current(FOLDER, architecture):
                sys.stdout.write(f"{program_path(FOLDER, architecture)} is up to date\n")
                continue
            sys.stdout.write(f"compiling the supervisor for {architecture}, up to a minute the first time …\n")
            sys.stdout.flush()
            program = compile_program(FOLDER, architecture, CACHE)
            sys.stdout.write(
                f"{program} ({program.stat().st_size / 1000:.0f} KB) is built: commit it with the source\n"
            )
    except (CompilationError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
