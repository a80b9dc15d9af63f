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
        pytest.param(*("hub estimate arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub play arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub serve arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub serve env arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub connect arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub check arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub doctor -e arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub compare arith", ["arithmetic"]), marks=pytest.mark.soak),
        pytest.param(*("hub compare su", ["sums"]), marks=pytest.mark.soak),
        pytest.param(*("hub compare arithmetic -m mock/so", ["mock/solver"]), marks=pytest.mark.soak),
        pytest.param(*("hub doctor su", ["sums"]), marks=pytest.mark.soak),
        pytest.param(*("hub report sums --format ht", ["html"]), marks=pytest.mark.soak),
        ("hub run ./di", ["./dice.py"]),
        ("hub run ./pack", ["./package"]),
        ("hub show la", ["last"]),
        ("hub show su", ["sums"]),
        pytest.param(*("hub report su", ["sums"]), marks=pytest.mark.soak),
        pytest.param(*("hub export su", ["sums"]), marks=pytest.mark.soak),
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


# What zsh's `_arguments` does with a list of words, in a shell that is everywhere.
ARGUMENTS = """
_arguments() { words=${1#*((}; eval "offered=( ${words%))} )"; printf '%s\\n' "${offered[@]}"; }
eval "$1"
"""


@pytest.mark.parametrize(
    "name",
    ["x\\$(id>executed).py", "x\\`id>executed`.py", "x\\", "x'$(id>executed)'.py", "$(id>executed).py", "x;id.py"],
)
def test_no_shell_executes_the_name_of_a_file_or_of_a_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    (tmp_path / "good.py").touch()
    (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / name / "run.db").touch()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "_HUB_COMPLETE": "complete_zsh"}
    for line, offered in (("hub run ./", ["./good.py", "./runs/"]), ("hub show ", ["last"])):
        asked = {**environ, "_TYPER_COMPLETE_ARGS": line}
        said = subprocess.run([PROGRAM], cwd=tmp_path, env=asked, capture_output=True, text=True, check=False).stdout
        shell = ["bash", "-c", ARGUMENTS, "bash", said]
        done = subprocess.run(shell, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.stdout.split("\n")[:-1] == offered
        assert not (tmp_path / "executed").exists()
    assert completed("hub run ./", tmp_path) == ["./good.py", "./runs/"]
