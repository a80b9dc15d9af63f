"""The supervisor's program as it is put into a sandbox: a static file for each architecture.

The programs are stored beside their source, in a checkout as in an installation; nothing is compiled here.
"""

from pathlib import Path

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.supervisor import compilation
from rollouthub_sandboxes.supervisor.compilation import ARCHITECTURES, FOLDER

_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Names that container engines and some kernels use for the architectures."""


def payload(architecture: str, folder: Path = FOLDER) -> bytes:
    """The bytes of the program for an architecture: x86_64 (amd64) or aarch64 (arm64).

    Raises:
        SandboxError: no supervisor is built for it.
    """
    return payload_path(architecture, folder).read_bytes()


def payload_path(architecture: str, folder: Path = FOLDER) -> Path:
    """Path of the executable program for an architecture.

    Raises:
        SandboxError: no supervisor is built for it.
    """
    name = _known(architecture)
    program = compilation.program_path(folder, name)
    if not compilation.is_current(folder, name):
        state = "older than its source" if program.exists() else "not there"
        problem = f"the sandbox supervisor for {name} is {state}; build it with `{compilation.COMMAND}`"
        raise SandboxError(problem, retryable=False)
    return program


def _known(architecture: str) -> str:
    lowered = architecture.lower()
    name = _OTHER_NAMES.get(lowered, lowered)
    if name not in ARCHITECTURES:
        listing = ", ".join((*ARCHITECTURES, *_OTHER_NAMES))
        problem = f"no sandbox supervisor for a machine of architecture {architecture!r}; there are: {listing}"
        raise SandboxError(problem, retryable=False)
    return name
