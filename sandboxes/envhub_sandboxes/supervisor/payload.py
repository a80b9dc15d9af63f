"""The supervisor's program as it is put into a sandbox: one static file for each architecture.

Wheels and editable installs bring the programs along. In a checkout whose C source changed since, they are compiled
anew where the compiler is installed. That takes seconds: call from a thread, `anyio.to_thread.run_sync(payload, arch)`.
"""

import logging
from pathlib import Path

from filelock import FileLock, Timeout

from envhub.errors import SandboxError
from envhub_sandboxes.supervisor import compilation
from envhub_sandboxes.supervisor.compilation import ARCHITECTURES, CompilationError

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
"""Where the source lies, and `bin/` with what was built from it."""
_CACHE = FOLDER / "bin" / ".cache"
"""The compiler's, of this checkout alone: one of a name known to other users could be theirs."""
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What container engines and some kernels call them."""


def payload(architecture: str, folder: Path = FOLDER) -> bytes:
    """The program for an architecture: x86_64 (amd64) or aarch64 (arm64).

    Raises:
        SandboxError: no supervisor is built for it.
    """
    return payload_path(architecture, folder).read_bytes()


def payload_path(architecture: str, folder: Path = FOLDER) -> Path:
    """Where the program for an architecture lies, built from the source as it now is; it may be executed there.

    Raises:
        SandboxError: no supervisor is built for it.
    """
    name = _known(architecture)
    if not compilation.is_current(folder, name):
        _build(name, folder)
    return compilation.program_path(folder, name)


def source_digest(folder: Path = FOLDER) -> str:
    """What the programs are built from, as a SHA-256 in hex: another digest, another supervisor."""
    return compilation.source_digest(folder)


def _known(architecture: str) -> str:
    lowered = architecture.lower()
    name = _OTHER_NAMES.get(lowered, lowered)
    if name not in ARCHITECTURES:
        listing = ", ".join((*ARCHITECTURES, *_OTHER_NAMES))
        problem = f"no sandbox supervisor for a machine of architecture {architecture!r}; there are: {listing}"
        raise SandboxError(problem, retryable=False)
    return name


def _build(architecture: str, folder: Path) -> None:
    """Compile what is absent or outdated, once however many processes ask at the same time."""
    is_there = compilation.program_path(folder, architecture).exists()
    problem = f"the sandbox supervisor for {architecture} is {'older than its source' if is_there else 'not built'}"
    if not compilation.has_compiler():
        cure = f"run `pip install -e .` in the checkout, or `pip install {compilation.COMPILER}` and try again"
        raise SandboxError(f"{problem}; {cure}", retryable=False)
    lock = folder / "bin" / ".lock"
    try:
        lock.parent.mkdir(exist_ok=True)
        with FileLock(lock, timeout=compilation.COMPILE_SECONDS):
            if not compilation.is_current(folder, architecture):
                logger.warning("%s: it is compiled now, which takes up to a minute the first time", problem)
                compilation.compile_program(folder, architecture, _CACHE)
    except (CompilationError, OSError, Timeout) as error:
        raise SandboxError(f"{problem}, and could not be built in {lock.parent}: {error}", retryable=False) from error
