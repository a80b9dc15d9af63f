"""Installing bundles, with uv and with pip: the same contract."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.installation import Origin
from rollouthub_registry.install.installed import Installed
from rollouthub_registry.install.installer_process import run_installer
from rollouthub_registry.install.virtual_environment import distributions, site_packages
from tests.registry.install.wheels import (
    World,
    class_bundle,
    server_bundle,
    write_hub_needs,
    write_wheel,
)


def venv(world: World, bundle: Bundle) -> Path:
    """Where its virtual environment is."""
    return world.home.folder(bundle.release) / "venv"


def test_a_declared_server_gets_just_what_it_names(world: World, tmp_path: Path) -> None:
    dep = write_wheel(world.links, "dep", "1.5", ["deeper"])
    write_wheel(world.links, "dep", "2.0")
    deeper = write_wheel(world.links, "deeper", "0.1")
    bundle = server_bundle(tmp_path / "words", ["dep>=1,<2"])
    steps: list[str] = []
    there = world.install(bundle, Origin("file:///registry", tools_digest="sha256:" + "1" * 64), note=steps.append)
    assert there == world.home.find("acme/words")
    assert not there.is_class
    assert there.secrets == ("WORDS_KEY", "JUDGE_TOKEN")
    assert there.file.read_bytes() == (tmp_path / "words/env.toml").read_bytes()
    assert (there.locked.bundle, there.locked.source) == (bundle.digest, "file:///registry")
    assert there.locked.dependencies == tuple(
        LockedDependency(name=name, version=number, hashes=(f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",))
        for name, number, file in (("deeper", "0.1", deeper), ("dep", "1.5", dep))
    )
    assert distributions(venv(world, bundle)) == {"deeper": "0.1", "dep": "1.5"}
    assert world.home.record(there).tools_digest == "sha256:" + "1" * 64
    tool = world.installer.name
    assert steps == [f"choosing its dependencies with {tool}", f"installing 2 distributions with {tool}"]
    assert sorted(each.name for each in world.home.folder(bundle.release).iterdir()) == [
        "content",
        "installed.json",
        "venv",
    ]


def test_a_server_that_asks_for_nothing_gets_a_bare_interpreter(world: World, tmp_path: Path) -> None:
    there = world.install(bundle := server_bundle(tmp_path / "words"))
    assert distributions(venv(world, bundle)) == {}
    code = "import sys; print(sys.prefix)"
    said = subprocess.run([there.python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(venv(world, bundle))


def test_a_class_gets_this_very_hub_and_no_index_can_offer_another(either: World, tmp_path: Path) -> None:
    write_hub_needs(either.links)
    write_wheel(either.links, "dep", "1.0", ["rollouthub", "words"])
    write_wheel(either.links, "rollouthub", "99.0")
    write_wheel(either.links, "words", "99.0")
    bundle = class_bundle(tmp_path / "words", ["dep"])
    there = either.install(bundle)
    assert there.is_class
    assert there.locked.images == (f"python@sha256:{'0' * 64}",)
    chosen = distributions(venv(either, bundle))
    assert chosen["words"] == "1.2.0"
    assert chosen["rollouthub"] == either.home.record(there).hub_version != "99.0"
    assert {"mcp", "docker"} < set(chosen), "what the hub needs, and its extra for sandboxes"
    assert not {"rollouthub", "words"} & {each.name for each in there.locked.dependencies}


def test_a_class_gets_the_extras_it_names(quick: World, tmp_path: Path) -> None:
    write_hub_needs(quick.links)
    write_wheel(quick.links, "dep", "1.0")
    bundle = class_bundle(tmp_path / "words", ["dep; extra == 'more'", "absent; extra == 'other'"])
    quick.install(bundle)
    assert distributions(venv(quick, bundle))["dep"] == "1.0"


def test_an_environment_of_the_hub_itself_brings_its_hub(quick: World, tmp_path: Path) -> None:
    write_wheel(quick.links, "rollouthub", "99.0")
    bundle = class_bundle(tmp_path / "words", distribution="rollouthub")
    there = quick.install(bundle)
    assert distributions(venv(quick, bundle)) == {"rollouthub": "1.2.0"}
    Installed(quick.home).verify(there)


def test_programs_of_a_moved_environment_start(world: World, tmp_path: Path) -> None:
    entry = {
        "dep/tool.py": "def main():\n    print('here')\n",
        "dep/__init__.py": "",
        "dep-1.0.dist-info/entry_points.txt": "",
    }
    entry["dep-1.0.dist-info/entry_points.txt"] = "[console_scripts]\nsay = dep.tool:main\n"
    write_wheel(world.links, "dep", "1.0", files=entry)
    bundle = server_bundle(tmp_path / "words", ["dep"])
    there = world.install(bundle)
    said = subprocess.run([there.python.parent / "say"], capture_output=True, text=True, check=True)
    assert said.stdout == "here\n"
    programs = [each for each in there.python.parent.iterdir() if each.is_file() and not each.is_symlink()]
    assert not [each for each in programs if b".partial" in each.read_bytes()]


def test_versions_are_side_by_side_with_contradictory_dependencies(world: World, tmp_path: Path) -> None:
    for number in ("1.0", "2.0"):
        write_wheel(world.links, "dep", number)
    old = world.install(server_bundle(tmp_path / "old", ["dep<2"], "1.0.0"))
    new = world.install(server_bundle(tmp_path / "new", ["dep>=2"], "2.0.0"))
    assert [each.locked.dependencies[0].version for each in (old, new)] == ["1.0", "2.0"]
    assert world.home.find("acme/words") == new


def refused(world: World, bundle: Bundle, match: str) -> str:
    """It is refused, with nothing left behind."""
    with pytest.raises(InstallRefused, match=match) as caught:
        world.install(bundle)
    assert world.left == []
    return str(caught.value)


def test_contradictory_requirements_are_told(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "dep", "1.0", ["deeper<1"])
    write_wheel(world.links, "deeper", "0.5")
    write_wheel(world.links, "deeper", "2.0")
    said = refused(
        world, server_bundle(tmp_path / "words", ["dep", "deeper>=2"]), "acme/words@1.2.0 cannot be installed"
    )
    assert "deeper" in said
    assert "dep" in said.replace("deeper", "")


def test_a_source_distribution_is_never_built(either: World, tmp_path: Path) -> None:
    folder = tmp_path / "dep-1.0"
    folder.mkdir()
    (folder / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n")
    subprocess.run(["tar", "-czf", either.links / "dep-1.0.tar.gz", folder.name], cwd=tmp_path, check=True)
    refused(either, server_bundle(tmp_path / "words", ["dep"]), "dep")
    address = (either.links / "dep-1.0.tar.gz").as_uri()
    write_wheel(either.links, "trap", "1.0", [f"dep @ {address}"])
    refused(either, server_bundle(tmp_path / "trapped", ["trap"]), "dep")
    assert not (tmp_path / "ran").exists()


def test_a_version_that_its_wheel_spells_otherwise_is_the_same(quick: World, tmp_path: Path) -> None:
    write_wheel(quick.links, "dep", "2024.08")
    there = quick.install(server_bundle(tmp_path / "words", ["dep"]))
    assert there.locked.dependencies[0].version == "2024.8"
    Installed(quick.home).verify(there)


def test_settings_that_lead_elsewhere_are_no_success(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "dep", "1.0")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "pip.conf").write_text(f"[install]\ntarget = {elsewhere}\n")
    world.environ["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")
    world.environ["UV_TARGET"] = str(elsewhere)
    try:
        there = world.install(server_bundle(tmp_path / "words", ["dep"]))
    except InstallRefused as error:
        assert "has dep not at all" in str(error)
        assert world.left == []
    else:
        Installed(world.home).verify(there)


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_settings_that_somebody_left_among_temporary_files_have_no_say(
    name: str, quick: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(quick.links, "dep", "1.0")
    write_wheel(tmp_path / "evil", "dep", "9.9")
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    table = "[tool.uv]\n" if name == "pyproject.toml" else ""
    (everybodys / name).write_text(f'{table}find-links = ["{tmp_path}/evil"]\n')
    monkeypatch.setattr(tempfile, "tempdir", str(everybodys))
    del quick.environ["UV_FIND_LINKS"]
    with pytest.raises(InstallRefused, match="dep was not found"):
        quick.install(server_bundle(tmp_path / "words", ["dep"]))


def test_what_an_address_leads_to_is_refused(either: World, tmp_path: Path) -> None:
    write_hub_needs(either.links)
    address = write_wheel(tmp_path / "elsewhere", "dep", "1.0").as_uri()
    refused(either, class_bundle(tmp_path / "own", [f"dep @ {address}"]), "at an address can change")
    refused(either, class_bundle(tmp_path / "git", ["dep @ git+https://example.org/dep"]), "at an address can change")
    write_wheel(either.links, "trap", "1.0", [f"dep @ {address}"])
    refused(either, class_bundle(tmp_path / "theirs", ["trap"]), "dep")


def test_nobody_takes_the_hubs_name(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "rollouthub", "99.0")
    refused(world, server_bundle(tmp_path / "words", ["rollouthub"]), "a declared server cannot have the hub")


def test_what_is_locked_is_installed_and_nothing_else(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words", ["dep"])
    first = world.install(bundle)
    world.home.remove(bundle.release)
    write_wheel(world.links, "dep", "2.0")
    again = world.install(bundle, locked=first.locked)
    assert again.locked == first.locked
    assert distributions(venv(world, bundle)) == {"dep": "1.0"}
    world.home.remove(bundle.release)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    write_wheel(world.links, "dep", "1.0", files={"dep/more.py": "changed"})
    with pytest.raises(InstallRefused, match="dep"):
        world.install(bundle, locked=first.locked)
    assert world.left == []


def test_a_lock_that_does_not_fit_is_refused(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words", ["dep"])
    locked = world.install(bundle).locked
    world.home.remove(bundle.release)
    evil = LockedDependency(name="dep", version="1.0\n--index-url=http://127.0.0.1:9/", hashes=())
    for change, match in (
        ({"bundle": "sha256:" + "0" * 64}, "is not what the lock says"),
        ({"version": "1.3.0"}, "the lock is of acme/words@1.3.0"),
        ({"python": "2.7"}, "locked for Python 2.7"),
        ({"dependencies": ()}, "not enough for this hub and Python: it needs dep"),
        ({"dependencies": (evil,)}, "no distribution and version"),
        ({"dependencies": (LockedDependency(name="dep", version="1.0", hashes=()),)}, "no SHA-256 hashes"),
    ):
        with pytest.raises(InstallRefused, match=match):
            world.install(bundle, locked=locked.model_copy(update=change))
        assert world.left == []


def test_what_a_lock_agrees_with_stays(quick: World, tmp_path: Path) -> None:
    write_wheel(quick.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words", ["dep"])
    there = quick.install(bundle)
    dependency = there.locked.dependencies[0]
    more = dependency.model_copy(update={"hashes": (*dependency.hashes, "sha256:" + "0" * 64)})
    assert quick.install(bundle, locked=there.locked.model_copy(update={"dependencies": (more,)})) == there
    other = dependency.model_copy(update={"hashes": ("sha256:" + "0" * 64,)})
    with pytest.raises(InstallRefused, match="with other dependencies than the lock has"):
        quick.install(bundle, locked=there.locked.model_copy(update={"dependencies": (other,)}))


def test_the_same_bytes_again_stay_and_other_bytes_are_refused(world: World, tmp_path: Path) -> None:
    write_wheel(world.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words")
    first = world.install(bundle)
    inode = world.home.folder(bundle.release).stat().st_ino
    assert world.install(bundle) == first
    assert world.home.folder(bundle.release).stat().st_ino == inode
    world.install(bundle, replace=True)
    assert world.home.folder(bundle.release).stat().st_ino != inode
    with pytest.raises(InstallRefused, match="with other content"):
        world.install(server_bundle(tmp_path / "again", ["dep"]))
    assert world.home.find("acme/words") == world.home.find("acme/words@1.2.0")


def test_a_wheel_that_lies_about_itself_or_takes_the_hubs_name_is_refused(quick: World, tmp_path: Path) -> None:
    write_hub_needs(quick.links)
    file, start = "words-1.2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: words\n"
    lie = {file: f"{start}Version: 9.9\n"}
    refused(quick, class_bundle(tmp_path / "lie", files=lie), "says inside that it is 'words' '9.9'")
    taken = tmp_path / "taken"
    write_wheel(taken / "wheel", "rollouthub", "99.0")
    refused(quick, server_bundle(taken), "has the hub's own name")
    refused(quick, class_bundle(tmp_path / "alike", distribution="rollout_hub"), "has the hub's own name")
    old = {file: f"{start}Version: 1.2.0\nRequires-Python: <3\n"}
    refused(quick, class_bundle(tmp_path / "old", files=old), "needs Python <3")


def test_nothing_of_it_runs(world: World, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"
    files = {"trap.pth": trap, "sitecustomize.py": trap, "keyring/__init__.py": trap, "dep/__init__.py": trap}
    write_wheel(world.links, "dep", "1.0", files=files)
    bundle = server_bundle(tmp_path / "words", ["dep"])
    world.install(bundle)
    site = site_packages(venv(world, bundle))
    assert (site / "trap.pth").read_text() == trap, "it is there, for the environment's own process"
    assert not list(site.glob("*/__pycache__")), "its modules were never even looked at"
    assert not ran.exists()


def test_the_hubs_keys_are_not_shown_to_an_installer(
    quick: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**quick.environ, "OPENAI_API_KEY": "sk-none", "PYTHONPATH": "/elsewhere", "PIP_TARGET": "/elsewhere"}
    said = run_installer(["/usr/bin/env"], tmp_path, environ, "showing")
    assert not [word for word in ("OPENAI", "PYTHONPATH", "PIP_TARGET") if word in said]
    assert "PIP_NO_INDEX=1" in said
