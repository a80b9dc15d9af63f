"""From the supervisor's C source to one static program an architecture.

The build of a wheel and the hub itself share it. The build loads this file alone, from its path, before anything is
installed: nothing but the standard library is imported here.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHITECTURES = ("aarch64", "x86_64")
"""What a supervisor is built for, in the kernel's words (`uname -m`)."""
COMPILER = "ziglang"
"""The Python package of the compiler: it brings musl for every target, so that no other tool chain is needed."""
FLAGS = ("-std=c11", "-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror")
COMPILE_SECONDS = 600.0
"""The first compilation for a target also compiles its C library: seconds, minutes on a slow or crowded machine."""


class CompilationError(Exception):
    """The compiler is not there, or refused the source."""


def sources(folder: Path) -> list[Path]:
    """The C files and headers of a supervisor, in a fixed order."""
    return sorted(file for file in folder.iterdir() if file.suffix in (".c", ".h"))


def source_digest(folder: Path) -> str:
    """The SHA-256 (hex) of all that a supervisor is made from: its source files and the compiler's flags."""
    files = sources(folder)
    if not files:
        raise CompilationError(f"{folder} holds no C source of a supervisor")
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def program_path(folder: Path, architecture: str) -> Path:
    """Where the program for an architecture lies, built or not."""
    return folder / "bin" / architecture


def is_current(folder: Path, architecture: str) -> bool:
    """Whether the program for an architecture was built from the source as it now is."""
    if not program_path(folder, architecture).is_file():
        return False
    try:
        return _record(folder, architecture).read_text().strip() == source_digest(folder)
    except FileNotFoundError:
        return False


def has_compiler() -> bool:
    """Whether a program can be built here."""
    return importlib.util.find_spec(COMPILER) is not None


def compile_program(folder: Path, architecture: str, cache: Path) -> Path:
    """Build the program for an architecture and record what it was built from.

    `cache` keeps the C library between compilations: with it one takes a second, without it up to a minute.
    A reader, or somebody who builds the same at the same time, never meets half a program.

    Raises:
        CompilationError: there is no compiler, or it refused the source.
    """
    if not has_compiler():
        raise CompilationError(f"the compiler is not installed: no Python package {COMPILER!r}")
    digest, program = source_digest(folder), program_path(folder, architecture)
    program.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=program.parent) as work:
        made = Path(work, architecture)
        _run_compiler(folder, architecture, made, cache.resolve())
        made.chmod(0o755)
        recorded = Path(work, "source")
        recorded.write_text(f"{digest}\n")
        # The record comes last: whoever reads the new one finds the new program.
        made.replace(program)
        recorded.replace(_record(folder, architecture))
    return program


def _record(folder: Path, architecture: str) -> Path:
    return folder / "bin" / f"{architecture}.source"


def _run_compiler(folder: Path, architecture: str, made: Path, cache: Path) -> None:
    """Compile in the source's own folder with relative names, so that no path of this machine enters the program."""
    names = [file.name for file in sources(folder) if file.suffix == ".c"]
    target = ["-target", f"{architecture}-linux-musl"]
    # -P: modules beside the source must not stand in for the standard library's.
    command = [sys.executable, "-P", "-m", COMPILER, "cc", *target, *FLAGS, *names, "-o", str(made.resolve())]
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
