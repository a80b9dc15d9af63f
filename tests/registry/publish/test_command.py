"""`hub publish` as it is typed: what it prints, how it ends, and Ctrl-C in every step."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
    started,
)
from tests.registry.publish.environments import VERIFY, write_environment

STEPS = ("reading", "building", "asking", "installing", "starting", "checking")
QUICK = ("--limit", "1", "--quick")


def variables(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "temporary").mkdir(exist_ok=True)
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "TMPDIR": str(tmp_path / "temporary")}


def processes_in(folder: Path) -> list[str]:
    """The commands of the processes that were given a folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.soak
def test_it_says_step_by_step_what_it_does_and_how_to_install_it(
    tmp_path: Path,
    hub: Hub,  # noqa: F811
) -> None:
    write_environment(tmp_path / "words")
    to = (tmp_path / "hub").as_uri()
    done = hub("publish", "words", "--registry", to, *QUICK, **variables(tmp_path))
    assert done.code == 0, done.err
    assert all(re.search(rf"✓  {step}.* \d+\.\d s", done.err) for step in (*STEPS, "signing", "publishing"))
    assert f"lab/words@1.0.0 is published at {to}/packages/lab/words/1.0.0" in done.out
    assert f"hub install lab/words@1.0.0 --registry {to}" in done.out
    again: Any = hub("publish", "words", "--registry", to, "--json", **variables(tmp_path)).json
    assert again["was_there"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", again["digest"])


@pytest.mark.soak
def test_a_failing_check_says_what_failed_and_how_to_mend_it(
    tmp_path: Path,
    hub: Hub,  # noqa: F811
) -> None:
    write_environment(tmp_path / "words", {"verify.py": VERIFY.replace("0.0", "1.0").replace("False", "True")})
    done = hub("publish", "words", "--dry-run", *QUICK, **variables(tmp_path))
    assert done.code == 1
    assert "1 of 1 tasks reward an agent that does nothing" in done.err
    assert "→ give no reward for an untouched world" in done.err
    assert "--allow-failing-checks" in done.err


def test_what_cannot_be_meant_is_refused(tmp_path: Path, hub: Hub) -> None:  # noqa: F811
    write_environment(tmp_path / "words")
    assert "give one of the two" in hub("publish", "words", "--registry", "file:///x", "--output", "here").refused()
    assert "no registry is named" in hub("publish", "words", **variables(tmp_path)).refused()
    assert "begins with none of" in hub("publish", "words", "--registry", "ftp://x", **variables(tmp_path)).refused()


@pytest.mark.soak
@pytest.mark.parametrize("steps", range(len(STEPS)), ids=STEPS)
def test_ctrl_c_in_each_step_leaves_nothing(tmp_path: Path, steps: int) -> None:
    write_environment(tmp_path / "words")
    arguments = ("publish", "words", "--registry", (tmp_path / "hub").as_uri())
    with started(tmp_path, *arguments, **variables(tmp_path)) as process:
        assert process.stderr is not None
        for _ in range(steps):
            process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode in (130, -signal.SIGINT)  # the latter before Python is up
    assert not (tmp_path / "hub").exists()
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert processes_in(tmp_path / "temporary") == []
