"""A failing test that leaves broken garbage fails alone, and the run goes on."""

import subprocess
import sys
from pathlib import Path

FAILING = """
import gc

class Left:
    def __init__(self): self.me = self
    def __del__(self): raise ValueError(str(1 + self.half(2, 0)))
    def half(self, a, b): return a / b + b

def test_fails():
    gc.set_threshold(20_000)  # reached while the source is parsed, and not before
    left = [Left() for _ in range(200)]
    del left
    assert 1 + 1 == 3

def test_passes(): pass
"""


def test_a_failure_with_broken_garbage_does_not_end_the_run(tmp_path: Path) -> None:
    functions = "".join(f"\ndef f{i}(a, b=[1, 2, (3, 4)]):\n    return a + b[{i}] * (a - {i})\n" for i in range(1500))
    (tmp_path / "test_failing.py").write_text(FAILING + functions)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.whole_reports",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "-c", "/dev/null", tmp_path],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout[-2000:]
