"""What a shell completes, asked as bash asks it: in a process of its own, without importing anything heavy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("hub")


def completed(line: str, folder: Path) -> list[str]:
    words = line.split(" ")
    asked = {"_HUB_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    done = subprocess.run(
        [PROGRAM], cwd=folder, env=kept | asked, capture_output=True, text=True, errors="surrogateescape", check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("hub run arith", ["arithmetic"]),
        ("hub run arithmetic -a orac", ["oracle"]),
        ("hub run arithmetic -m mock/so", ["mock/solver"]),
        ("hub estimate arith", ["arithmetic"]),
        ("hub play arith", ["arithmetic"]),
        ("hub serve arith", ["arithmetic"]),
        ("hub serve env arith", ["arithmetic"]),
        ("hub connect arith", ["arithmetic"]),
        ("hub check arith", ["arithmetic"]),
        ("hub doctor -e arith", ["arithmetic"]),
        ("hub run ./di", ["./dice.py"]),
        ("hub run ./pack", ["./package"]),
        ("hub show la", ["last"]),
        ("hub show su", ["sums"]),
        ("hub report su", ["sums"]),
        ("hub export su", ["sums"]),
        ("hub run no-such", []),
        ("hub show nothing-of-the-kind", []),
    ],
)
def test_a_shell_completes_names(line: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "dice.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "env.toml").touch()
    if " su" in line:
        run = [PROGRAM, "run", "arithmetic", "--limit", "1", "-q", "-o", "runs/sums"]
        subprocess.run(run, cwd=tmp_path, capture_output=True, check=True)
    assert completed(line, tmp_path) == offered


def test_a_name_that_a_terminal_would_not_show_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "di\x1b[31mce.py").touch()
    (tmp_path / "die.py").touch()
    assert completed("hub run ./di", tmp_path) == ["./die.py"]
