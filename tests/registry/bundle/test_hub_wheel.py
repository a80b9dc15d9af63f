"""The running hub as a wheel."""

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

from rollouthub_registry.bundle.hub_wheel import PACKAGES, hub_wheel


def test_the_hub_is_repacked_the_same_each_time(tmp_path: Path) -> None:
    first = hub_wheel({"XDG_CACHE_HOME": str(tmp_path)})
    inode = first.stat().st_ino
    assert hub_wheel({"XDG_CACHE_HOME": str(tmp_path)}) == first
    assert first.stat().st_ino == inode, "it is kept, so that installers know it again"
    other = hub_wheel({"HOME": str(tmp_path / "home")})
    assert other.read_bytes() == first.read_bytes()
    assert [each.name for each in first.parent.iterdir()] == [first.name]


def test_what_is_damaged_in_the_cache_is_put_right(tmp_path: Path) -> None:
    wheel = hub_wheel({"XDG_CACHE_HOME": str(tmp_path)})
    content = wheel.read_bytes()
    wheel.write_bytes(content[:-1])
    assert hub_wheel({"XDG_CACHE_HOME": str(tmp_path)}).read_bytes() == content


def test_wheels_of_hubs_that_are_gone_are_not_kept_for_ever(tmp_path: Path) -> None:
    folders = [tmp_path / "rollouthub/hub-wheels" / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir(parents=True)
    os.utime(folders[0], (0, 0))
    hub_wheel({"XDG_CACHE_HOME": str(tmp_path)})
    assert [folder.exists() for folder in folders] == [False, True]


def test_it_holds_the_hubs_files_and_no_caches(tmp_path: Path) -> None:
    with zipfile.ZipFile(hub_wheel({"XDG_CACHE_HOME": str(tmp_path)})) as archive:
        names = archive.namelist()
        assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
        assert not [name for name in names if "__pycache__" in name or "/.cache/" in name or name.endswith(".pyc")]
        assert "rollouthub_registry/bundle/hub_wheel.py" in names
        assert "rollouthub/py.typed" in names
        supervisors = [each for each in archive.infolist() if "/supervisor/bin/" in each.filename]
        assert [each for each in supervisors if each.external_attr >> 16 & stat.S_IXUSR]


def test_python_runs_the_hub_from_it(tmp_path: Path) -> None:
    wheel = hub_wheel({"XDG_CACHE_HOME": str(tmp_path)})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import rollouthub, rollouthub.cli.main; from importlib.metadata import entry_points, version;"
        "print(rollouthub.__file__, version('rollouthub'),"
        " 'check' in entry_points(group='rollouthub.commands').names)"
    )
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "site")}
    said = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert said.stdout.split()[0] == str(tmp_path / "site/rollouthub/__init__.py")
    assert said.stdout.split()[-1] == "True"
