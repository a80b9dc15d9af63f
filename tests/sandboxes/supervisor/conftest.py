"""A supervisor per test, and folders that any user may reach."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor.compilation import CACHE, compile_program, has_compiler
from rollouthub_sandboxes.supervisor.payload import payload_path
from tests.sandboxes.supervisor.wire import Victims, Wire


@pytest.fixture(scope="session")
def program() -> Generator[Path]:
    """The supervisor's program where any user may run it."""
    with tempfile.TemporaryDirectory(prefix="rollouthub-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copy(payload_path(os.uname().machine), Path(folder, "supervisor")))


@pytest.fixture(scope="session")
def intruder(program: Path) -> Path:
    """A program without a library that attacks its supervisor, where any user may run it.

    The machine's own compiler makes it in a second; the package of a compiler, which makes the C library first, is for
    where there is none.
    """
    source, program = Path(__file__).with_name("intruder.c"), program.with_name("intruder")
    if (compiler := shutil.which("cc")) and _makes(compiler, source, program):
        return program
    if not has_compiler():
        pytest.skip("no compiler for the program that attacks")
    folder = program.parent / "intruder-source"
    folder.mkdir()
    shutil.copy(source, folder)
    return Path(shutil.copy(compile_program(folder, os.uname().machine, CACHE), program))


def _makes(compiler: str, source: Path, program: Path) -> bool:
    """Whether a compiler makes a static program; some have no static C library."""
    command = [compiler, "-std=c11", "-static", "-O2", "-o", program, source]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def place() -> Generator[Path]:
    """A folder that any user may write to."""
    with tempfile.TemporaryDirectory(prefix="rollouthub-test-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def wire(program: Path) -> Generator[Wire]:
    """A running supervisor."""
    with Wire([program]) as wire:
        yield wire


@pytest.fixture
def victims(place: Path) -> Generator[Victims]:
    """A fifo that tells the living from the dead."""
    with Victims(place) as victims:
        yield victims
