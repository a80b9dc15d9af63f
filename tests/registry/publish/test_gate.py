"""The gate: environments that hang, that hide, and that only work where they were written."""

import os
import select
from pathlib import Path

import pytest

from rollouthub.errors import UsageError
from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.check.installed_check import CheckRefused
from rollouthub_registry.publish.console import Silent
from rollouthub_registry.publish.gate import Passed, pass_gate
from rollouthub_registry.publish.publication import PublishRequest, publish
from rollouthub_registry.publish.publish_error import PublishRefused
from rollouthub_registry.publish.steps import Steps
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)
from tests.registry.publish.environments import MANIFEST, QUICK, SERVER, VERIFY, write_environment

SILENT = "import sys, time\n\ntime.sleep(600)\n"
LAZY = """\
import os, subprocess, sys, time

child = subprocess.Popen(["sleep", "600"])
open({file!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""


def through_the_gate(tmp_path: Path, seconds: float = 60.0, **changes: str) -> Passed:
    files = {name.replace("__", "."): text for name, text in changes.items()}
    bundle = build_bundle(write_environment(tmp_path / "words", files), tmp_path / "made")
    return pass_gate(bundle, QUICK, tmp_path / "gate", Steps(Silent()), seconds, is_quick=True)


def is_gone(pid: int) -> bool:
    """Whether a process ends."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 5)[0])
    finally:
        os.close(process)


@pytest.mark.usefixtures("home")
@pytest.mark.soak
def test_a_server_that_never_answers_is_refused(tmp_path: Path) -> None:
    manifest = MANIFEST.replace('server.py"]', 'server.py"]\nstart_seconds = 0.5')
    with pytest.raises(PublishRefused, match=r"lab/words@1\.0\.0 does not start from its bundle"):
        through_the_gate(tmp_path, server__py=SILENT, env__toml=manifest)


@pytest.mark.usefixtures("home")
@pytest.mark.soak
def test_checks_that_do_not_end_are_ended_with_all_they_started(tmp_path: Path) -> None:
    with pytest.raises(CheckRefused, match="was not checked within 2 s"):
        through_the_gate(tmp_path, 2.0, verify__py=LAZY.format(file=str(tmp_path / "pids")))
    assert all(is_gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.usefixtures("home")
@pytest.mark.soak
def test_a_secret_of_the_environment_is_in_nothing_that_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDS_PASSPORT", "x-4711-passport")
    folder = write_environment(tmp_path / "words", {"verify.py": VERIFY.replace("0.0", "1.0")})
    order = PublishRequest(folder, asked=QUICK, allows_failing_checks=True, out=tmp_path / "out", is_quick=True)
    publish(order, os.environ, Steps(Silent()))
    assert all(b"4711" not in file.read_bytes() for file in (tmp_path / "out").iterdir())


@pytest.mark.usefixtures("home")
@pytest.mark.live
def test_a_scaffold_passes_unchanged_and_what_it_does_not_declare_is_missed(
    tmp_path: Path,
    hub: Hub,  # noqa: F811
) -> None:
    assert hub("new", "lab/bills", "-o", tmp_path / "bills").code == 0
    published = hub("publish", "bills", "--registry", (tmp_path / "hub").as_uri(), "--json", timeout=300)
    assert published.code == 0, published.err
    assert published.json["checks_passed"]
    source = next((tmp_path / "bills" / "src").rglob("*.py"))
    source.write_text(
        source.read_text().replace("from rollouthub", "import hypothesis  # the author has it\nfrom rollouthub", 1)
    )
    refused = hub("publish", "bills", "--dry-run", timeout=300)
    assert refused.code == 2, refused.err
    assert "does not start from its bundle" in refused.err
    assert "hypothesis" in refused.err
    assert "not among its dependencies" in refused.err


@pytest.mark.usefixtures("home")
def test_a_server_that_lies_in_its_authors_folder_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "left_behind.txt").write_text("here")
    reading = SERVER.replace("import json", "open('../left_behind.txt')\nimport json")
    with pytest.raises(UsageError, match=r"left_behind\.txt"):
        through_the_gate(tmp_path, server__py=reading)
