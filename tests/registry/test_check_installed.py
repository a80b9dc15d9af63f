"""Checks of installed environments: a class is another process's to import, which is bounded and leaves nothing."""

import os
import select
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import UsageError
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_run import check_environment
from rollouthub_registry.check.installed_check import CheckRefused, check_installed
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.install.installation import Origin, install
from tests.registry.interpreters import install_class
from tests.registry.publish.environments import write_environment

NULL = CheckRequest(limit=1, only=("null",))
BARE = replace(NULL, wall="none")
"""Of interpreters that have the hub of this one, which nothing behind a wall would see."""
SHOPPING = Path(__file__).parents[2] / "examples" / "mcp_server"


def is_gone(file: Path) -> bool:
    """Whether the process ends whose id a file holds."""
    try:
        process = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 5)[0])
    finally:
        os.close(process)


async def test_a_class_is_checked_by_its_own_interpreter_whatever_it_prints(tmp_path: Path) -> None:
    tasks = """print('{"findings": []}', flush=True); os.write(1, b'{"findings": []}\\\\n')"""
    findings = await check_installed(install_class(tmp_path, tasks=tasks), BARE)
    assert [(finding.check, finding.state) for finding in findings] == [("null", "passed")]


async def test_what_its_interpreter_lacks_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckRefused, match=r"lab/apart@0\.1\.0 cannot be hosted.*no_such_distribution"):
        await check_installed(install_class(tmp_path, imports="import no_such_distribution"), BARE)


async def test_it_has_the_secrets_it_names_and_no_others_and_none_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSPORT", "x-4711-passport")
    monkeypatch.setenv("OTHER_API_KEY", "x-4712-other")
    verify = "raise ValueError(os.environ['PASSPORT'] + ' and ' + os.environ.get('OTHER_API_KEY', 'nothing'))"
    (finding,) = await check_installed(install_class(tmp_path, verify=verify), BARE)
    said = f"{finding.says} {finding.details}"
    assert finding.state == "failed"
    assert "and nothing" in said
    assert "4711" not in said


@pytest.mark.soak
async def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    tasks = f"open({str(tmp_path / 'pid')!r}, 'w').write(str({child}.pid)); time.sleep(600)"
    with pytest.raises(CheckRefused, match="was not checked within 4 s"):
        await check_installed(install_class(tmp_path, tasks=tasks), BARE, seconds=4)
    assert is_gone(tmp_path / "pid")


@pytest.mark.soak
async def test_one_that_dies_and_leaves_others_at_its_pipes_is_told_at_once(tmp_path: Path) -> None:
    child = "subprocess.Popen(['sleep', '600'])"
    imports = f"open({str(tmp_path / 'pid')!r}, 'w').write(str({child}.pid)); os._exit(3)"
    with anyio.fail_after(30), pytest.raises(CheckRefused, match="ended without an answer"):
        await check_installed(install_class(tmp_path, imports=imports), BARE)
    assert is_gone(tmp_path / "pid")


async def test_a_declared_server_is_checked_with_the_interpreter_it_was_installed_with(tmp_path: Path) -> None:
    def installed(python: Path) -> Installation:
        locked = LockedEnvironment(name="examples/shopping", version="0.1.0")
        return Installation(locked, "", SHOPPING / "env.toml", python, is_class=False)

    own = tmp_path / "python"
    own.write_text(f'#!/bin/sh\necho once >> {tmp_path / "used"}\nexec {sys.executable} "$@"\n')
    own.chmod(0o755)
    (finding,) = await check_installed(installed(own), BARE)
    assert finding.state == "passed"
    assert (tmp_path / "used").exists()


@pytest.mark.usefixtures("walled")
async def test_an_installed_environment_is_checked_by_its_name_and_only_as_it_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    bundle = build_bundle(write_environment(tmp_path / "words"), tmp_path / "made")
    installed = install(bundle, Origin("a test"), InstallHome.of({"XDG_DATA_HOME": str(tmp_path / "data")}))
    (finding,) = await check_environment("lab/words@1.0.0", NULL)
    assert finding.state == "passed"
    (installed.file.parent / "verify.py").write_text("print(1)")
    with pytest.raises(UsageError, match=r"lab/words@1\.0\.0"):
        await check_environment("lab/words", NULL)
