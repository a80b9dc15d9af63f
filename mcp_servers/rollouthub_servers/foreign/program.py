"""`ForeignProgram`: a driver and the settings of its process; `start` runs it isolated."""

import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.components import component
from rollouthub.processes import guarded
from rollouthub_servers.mcp_server.processes import MARK
from rollouthub_servers.mcp_server.scratch import Scratch

GIB = 1 << 30
_SERVING = "rollouthub_servers.foreign.serving"


class _Walled(Protocol):
    """What the component `foreign_walls` gives."""

    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def walls(self) -> str: ...
    @property
    def grace_seconds(self) -> float: ...


@dataclass(frozen=True)
class ForeignProgram:
    """The program of a foreign process. It gets none of the hub's keys, unless `variables` holds one."""

    name: str
    """Name of the program in error messages, such as `NeMo Gym server 'arc_agi'`."""
    python: Path
    """Path of the interpreter of the program's virtual environment."""
    module: str
    """The driver: a module of the hub that imports nothing of the hub but `serving` and `modules`."""
    modules: tuple[str, ...] = ()
    """Further modules of the hub that the driver imports."""
    arguments: JsonValue = None
    """The value that `serving.arguments()` returns in the driver."""
    shown: tuple[Path, ...] = ()
    """Files and folders that the process sees read-only at their own paths, besides the system and its virtual
    environment.
    """
    path: tuple[Path, ...] = ()
    """Folders to import from; the process sees them read-only, too."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    network: bool = False
    memory_bytes: int = 8 * GIB
    """Limit in bytes on the address space of each of the program's processes."""
    start_seconds: float = 120.0
    """Maximum seconds for the driver to load its libraries and listen."""
    ping_seconds: float = 5.0
    """After a call timed out: seconds within which the process must answer a ping, or it counts as hung."""

    def start(self, scratch: Scratch, log: IO[bytes]) -> "tuple[subprocess.Popen[bytes], str]":
        """Start it: the process of its guard, whose stdin holds it alive, and the kind of walls it has. Blocks shortly.

        Raises:
            ConfigError: it cannot be started here.
        """
        kit = scratch.root / "kit"
        _write_kit(kit, (_SERVING, self.module, *self.modules))
        socket = socket_of(scratch)
        socket.parent.mkdir(mode=0o700)
        # -P keeps what the foreign code writes into its own folder from being imported.
        command = (str(self.python), "-P", "-m", self.module, str(socket), json.dumps(self.arguments))
        # The environment's interpreter alone is a link: what it leads to is the system's, and shown.
        shown = (*self.shown, *self.path, self.python.parent.parent)
        wall: Callable[..., _Walled] = component("foreign_walls")
        own = (scratch.root, scratch.workdir)
        variables = self._variables(scratch, kit)
        walled = wall(
            command,
            *own,
            _readable(shown),
            network=self.network,
            memory_bytes=self.memory_bytes,
            variables=tuple(variables),
        )
        try:
            process = subprocess.Popen(
                guarded(walled.command, walled.grace_seconds),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=scratch.workdir,
                env=variables,
                start_new_session=True,  # Ctrl-C is the hub's to handle
            )
        except OSError as error:
            raise ConfigError(f"{self.name} cannot be started: {error.strerror or error}") from error
        return process, walled.walls

    def _variables(self, scratch: Scratch, kit: Path) -> dict[str, str]:
        """Environment variables of the process; from the hub's own environment it gets only PATH and LANG."""
        return {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "HOME": str(scratch.home),
            "TMPDIR": str(scratch.temporary),
            "PYTHONPATH": os.pathsep.join(map(str, (kit, *self.path))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",
            MARK: scratch.mark,
            **self.variables,
        }


def socket_of(scratch: Scratch) -> Path:
    """Path of the driver's socket, in a folder that only the driver and the hub can enter."""
    return scratch.root / "line" / "socket"


def open_log() -> IO[bytes]:
    """Open a file without a name for a process's output; it disappears when it is closed."""
    return tempfile.TemporaryFile()


def last_words(log: IO[bytes], most: int = 4_000) -> str:
    """The end of a log's text."""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), most, max(0, size - most)).decode(errors="replace").strip()


def _readable(paths: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys(path.absolute() for path in paths))


def _write_kit(kit: Path, modules: Sequence[str]) -> None:
    """Copy modules of the hub's, each below empty packages of their names: nothing else of the hub can be imported."""
    for name in modules:
        spec: Any = importlib.util.find_spec(name)
        source = Path(spec.origin)
        *packages, last = name.split(".")
        if spec.submodule_search_locations is not None:
            packages, last = [*packages, last], "__init__"
        folder = kit
        for package in packages:
            folder /= package
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{last}.py").write_bytes(source.read_bytes())
