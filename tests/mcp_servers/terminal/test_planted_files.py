"""Which changed files could speak for the tests, told by their paths."""

import pytest

from rollouthub_servers.terminal.planted_files import is_suspect, system_files


@pytest.mark.parametrize(
    "path",
    [
        "/app/conftest.py",
        "/conftest.py",
        "/app/pytest.ini",
        "/app/.pytest.ini",
        "/app/tox.ini",
        "/app/pytest.toml",
        "/pyproject.toml",
        "/setup.cfg",
        "/usr/lib/python3/dist-packages/sitecustomize.py",
        "/root/.local/lib/python3.12/site-packages/usercustomize.pyc",
        "/usr/lib/python3.12/sitecustomize/__init__.py",
        "/usr/lib/python3/dist-packages/evil.pth",
        "/etc/ld.so.preload",
        "/usr/bin/bash",
        "/usr/local/bin/rm",
    ],
)
def test_what_runs_by_itself_is_suspect(path: str) -> None:
    assert is_suspect(path)


@pytest.mark.parametrize(
    "path",
    [
        "/app/main.py",
        "/usr/lib/python3/dist-packages/pkg/conftest.py",
        "/app/bash",
        "/app/pyproject.toml",
        "/app/notes.pth",
    ],
)
def test_work_is_not(path: str) -> None:
    assert not is_suspect(path)


def test_changed_files_of_the_system_are_counted_without_their_folders() -> None:
    changed = ["/app/x", "/etc/hosts", "/etc/passwd", "/usr/bin", "/usr/bin/jq", "/usr/share/doc", "/usr/share/doc/jq"]
    assert system_files(changed) == ["/etc/passwd", "/usr/bin/jq", "/usr/share/doc/jq"]
