"""Where the programs of a declared environment run, and with what."""

import os
import sys
from pathlib import Path

from rollouthub_servers.mcp_server.program_place import ProgramPlace


def test_the_hubs_own_interpreter_changes_nothing(tmp_path: Path) -> None:
    assert ProgramPlace(tmp_path, sys.executable).variables == {"PATH": os.environ["PATH"]}


def test_an_interpreter_of_its_own_comes_first_and_writes_no_bytecode_among_verified_files(tmp_path: Path) -> None:
    found = ProgramPlace(tmp_path, "/its/own/bin/python").variables
    assert found["PATH"].split(os.pathsep)[0] == "/its/own/bin"
    assert found["PYTHONDONTWRITEBYTECODE"] == "1"
