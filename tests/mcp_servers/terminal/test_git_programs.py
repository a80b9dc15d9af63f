"""Which settings and hooks of a repository have git run a program."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rollouthub_servers.terminal.git_programs import are_plain, is_hook


def git(folder: Path, *words: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_what_git_writes_for_honest_work_is_plain(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "first")
    git(
        tmp_path, "-C", "first", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"
    )
    git(tmp_path, "clone", "-q", "first", "second")
    git(tmp_path, "-C", "second", "config", "user.email", "someone@example.org")
    git(tmp_path, "-C", "second", "config", "init.defaultBranch", "trunk # of the tree")
    for name in ("first", "second"):
        assert are_plain((tmp_path / name / ".git" / "config").read_bytes())


@pytest.mark.parametrize(
    "settings",
    [
        "[core]\n\tfsmonitor = /x",
        "[core] fsmonitor = /x",
        "[core]fsmonitor=/x",
        "[CORE]\n FSMonitor=/x",
        "\ufeff[core]\nfsmonitor=/x",
        "[core]\n bare = false ; \\\n fsmonitor = /x",
        "[core]\n#\n\thooksPath = /x",
        '[remote "o"]\nuploadpack = /x',
        '[remote "o"]\nurl = ext::sh -c x',
        '[remote "]"]\npromisor = true',
        '[submodule "a"]\nupdate = !/x',
        "[include]\npath = /x",
        "[alias]\nstatus = !/x",
        '[filter "a"]\nclean = /x',
        "[hook]\ncommand = /x",
        "fsmonitor = /x",
        "[core",
    ],
)
def test_settings_that_name_a_program_are_seen_however_they_are_written(settings: str) -> None:
    assert not are_plain(settings.encode())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/work/.git/hooks/post-checkout", True),
        ("/srv/work/.git/hooks/a/b", True),
        ("/opt/anywhere/post-index-change", True),
        ("/srv/work/.git/hooks/pre-commit.sample", False),
        ("/srv/work/src/hooks/useState.ts", False),
        ("/srv/work/update", False),
    ],
)
def test_a_hook_is_known_by_its_name_wherever_it_lies(path: str, expected: bool) -> None:
    assert is_hook(path) is expected
