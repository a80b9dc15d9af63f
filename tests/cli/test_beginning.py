"""How the program begins."""

import os
import signal
import subprocess
import sys
from pathlib import Path

# Found by every interpreter that starts with this on its path: stops it where the command line begins to load.
HELD = """
import sys

class Held:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            sys.meta_path.remove(self)
            print("loading", flush=True)
            sys.stdin.read()

sys.meta_path.insert(0, Held())
"""


def test_ctrl_c_while_the_program_loads_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HELD)
    program = Path(sys.executable).with_name("hub")
    with subprocess.Popen(
        [str(program), "--version"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "error: interrupted\n")
