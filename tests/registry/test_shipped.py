"""The hub's own environments and presets: each can be published like anybody's, and is what its name says."""

import zipfile
from pathlib import Path

import pytest

from rollouthub.authoring.rows.named_data import data_of
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.bundle import build_bundle, extract
from rollouthub_registry.bundle.hub_wheel import hub_wheel
from rollouthub_registry.install.venv_contents import wanted
from rollouthub_registry.manifest import check_publishable
from rollouthub_registry.shipped import shipped_folder, shipped_names


def folder_of(name: str) -> Path:
    """The folder of a shipped name, which must have one."""
    folder = shipped_folder(name)
    assert folder is not None
    return folder


@pytest.mark.parametrize("name", shipped_names())
def test_every_name_of_the_hubs_own_can_be_published(name: str) -> None:
    file = folder_of(name) / "env.toml"
    manifest = load_manifest(file)
    assert check_publishable(manifest, file) == []
    assert (manifest.name, manifest.license, manifest.contract) == (f"rollouthub/{name}", "Apache-2.0", 1)
    described, registered = find_environment(str(file)), find_environment(name)
    assert described.environment is registered.environment
    assert described.defaults == registered.defaults
    # What the manifest says of the tasks is where the class reads them.
    data, pinned = registered.defaults.get("data"), data_of(registered)
    assert (data is None) == (not manifest.tasks)
    if pinned is not None:
        assert {split: file.url for split, file in pinned.splits.items()} == {
            split: source.url for split, source in manifest.tasks.items()
        }
        assert pinned.name == name
        assert manifest.adopted_from is not None
        # A commit, whose files nobody can change, and what is told before anything is fetched.
        for file in pinned.splits.values():
            assert str(manifest.adopted_from.revision) in file.url.split("/")
            assert file.bytes
            assert file.rows
    elif data is not None:
        assert [source.data for source in manifest.tasks.values() if source.data != data] == []
        assert manifest.python is not None
        assert "data" in manifest.python.extras


ALL = [name if name == "arithmetic" else pytest.param(name, marks=pytest.mark.live) for name in shipped_names()]
"""One is quick; all of them take half a minute."""


@pytest.mark.parametrize("name", ALL)
def test_a_bundle_of_the_hubs_own_is_twice_the_same_and_names_the_hubs_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, other = (build_bundle(folder_of(name), tmp_path / str(number)) for number in range(2))
    assert one.digest == other.digest
    assert one.wheel is not None
    assert {file for file in one.files if file not in (".hubignore", one.wheel)} == {"env.toml"}
    extract(one, tmp_path / "there")
    made, running = tmp_path / "there" / one.wheel, hub_wheel({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    with zipfile.ZipFile(made) as wheel, zipfile.ZipFile(running) as hub:
        assert {name: wheel.read(name) for name in wheel.namelist()} == {
            name: hub.read(name) for name in hub.namelist()
        }


def test_one_of_the_hubs_own_brings_the_hub_once_with_the_extras_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle = build_bundle(folder_of("humaneval"), tmp_path)
    extract(bundle, tmp_path / "there")
    (tmp_path / "cache").rename(tmp_path / "gone")  # what is installed is in the bundle, and made by no other hub
    (wheel,) = wanted(bundle, tmp_path / "there", {"XDG_CACHE_HOME": str(tmp_path / "cache")}).wheels
    assert (wheel.name, wheel.extras) == ("rollouthub", ("docker",))
    assert wheel.file == tmp_path / "there" / str(bundle.wheel)
    assert not (tmp_path / "cache").exists()


def test_other_names_have_no_folder_here(tmp_path: Path) -> None:
    assert shipped_folder("acme/words") is None
    assert shipped_folder("presets") is None
    assert shipped_folder("../registry") is None
