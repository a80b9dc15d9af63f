"""What the first command says where it cannot go on, on machines with little; CI plays the rest in bare containers."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "quickstart.sh"
PROGRAMS = ("sh", "dirname", "basename", "id", "sed")
"""All that the machine has: no apt-get above all, which root's run would call."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A clone with the script alone, and beside it the folder of the machine's programs; `sudo` leaves a trace."""
    (tmp_path / "clone" / "examples").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "clone" / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    write_program(programs / "sudo", f"echo >{tmp_path / 'asked'}")
    return tmp_path


def write_program(path: Path, lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)


def refusal(machine: Path, **variables: str) -> str:
    """What the script says in its one line on stderr, ending with 2."""
    environment = {"PATH": str(machine / "bin"), **variables}
    command = [str(machine / "bin" / "sh"), "clone/examples/quickstart.sh"]
    done = subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert not (machine / "asked").exists(), "it asked for sudo"
    (line,) = done.stderr.splitlines()
    return line


def test_no_python_is_said_with_the_package(machine: Path) -> None:
    assert "no python3; install Python 3.11 or newer (as root: apt-get install python3-venv)" in refusal(machine)


def test_an_old_python_is_said(machine: Path) -> None:
    old = 'case "$*" in *version_info*) exit 1;; --version) echo Python 3.9.2;; esac'
    write_program(machine / "bin" / "python3", old)
    assert "Python 3.9.2 is too old; install Python 3.11 or newer" in refusal(machine)


@pytest.mark.parametrize(("python", "package"), [("python3", "python3-venv"), ("python3.12", "python3.12-venv")])
def test_a_python_without_its_venv_is_said_with_the_package(machine: Path, python: str, package: str) -> None:
    write_program(machine / "bin" / python, 'case "$*" in *ensurepip*) exit 1;; esac')
    assert f"{python} cannot make virtual environments; as root: apt-get install {package}" in refusal(
        machine, PYTHON=python
    )


def test_an_installation_that_fails_ends_it(machine: Path) -> None:
    write_program(machine / "bin" / "python3", "exit 0")
    write_program(machine / "clone" / ".venv" / "bin" / "pip", "exit 0")
    write_program(machine / "clone" / ".venv" / "bin" / "python", "exit 3")
    assert "the installation failed (pip ended with 3" in refusal(machine)
