"""`hub new`: a package that works at once, by path and installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.manifest import check_publishable
from rollouthub_registry.scaffold.names import names_of
from rollouthub_registry.scaffold.package import NewPackage, make_package
from tests.cli.conftest import (
    HUB,
    Hub,
    environment,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)
from tests.registry.bundle.packages import small_wheel


def test_a_new_package_is_run_at_once(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    made = hub("new", "acme/price-list", "-o", "shop", "--json")
    assert made.code == 0, made.err
    assert made.json["name"] == "acme/price-list"
    assert sorted(made.json["files"]) == sorted(
        str(path.relative_to(tmp_path / "shop")) for path in (tmp_path / "shop").rglob("*") if path.is_file()
    )
    ran = hub("run", "shop/src/price_list.py", "--limit", "5", "--json", "-q")
    assert ran.json["mean_reward"] == 1.0


def test_a_package_installed_beside_the_hub_is_run_from_its_folder(tmp_path: Path) -> None:
    """It registers no name of its own: that is what `hub install` gives it, and nothing else."""
    where = built(make_package("acme/price-list", tmp_path / "shop"), tmp_path)
    assert not list(where.rglob("entry_points.txt"))
    command = [*HUB, "run", "shop", "--limit", "5", "--json", "-q"]
    own = environment(PYTHONPATH=str(where))
    ran = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["mean_reward"] == 1.0


def built(made: NewPackage, tmp_path: Path) -> Path:
    """The package installed into a folder of its own, without the network."""
    pytest.importorskip("hatchling", reason="building a package without the network needs hatchling here")
    where = tmp_path / "installed"
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    target = ["--target", str(where), str(made.directory)]
    command = [sys.executable, "-m", "pip", "install", *offline, *target]
    bare = environment(PIP_CONSTRAINT="")  # which may be a file's name relative to another folder
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return where


@pytest.mark.parametrize("is_server", [False, True])
def test_a_new_package_lacks_nothing_to_be_published(is_server: bool, tmp_path: Path) -> None:
    made = make_package("acme/price-list", tmp_path / "shop", is_server=is_server)
    file = made.directory / "env.toml"
    assert check_publishable(load_manifest(file), file) == []
    if not is_server:  # a stand-in for its wheel: building one fetches hatchling
        (made.directory / "wheel").mkdir()
        (made.directory / "wheel" / "acme_price_list-0.1.0-py3-none-any.whl").write_bytes(
            small_wheel("acme_price_list", "0.1.0")
        )
    bundles = [build_bundle(made.directory, tmp_path / str(number)) for number in range(2)]
    assert bundles[0].digest == bundles[1].digest
    assert str(bundles[0].release) == "acme/price-list@0.1.0"


def test_a_new_server_is_played(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    assert hub("new", "acme/json", "--server", "-o", "store").code == 0  # nothing imports it
    assert hub("run", "store", "-a", "oracle", "--json", "-q").json["mean_reward"] == 1.0
    asked = json.dumps({"workdir": str(tmp_path), "task": {"answer": {"top": {}}}})
    verifier = [sys.executable, "store/verify.py"]
    said = subprocess.run(verifier, cwd=tmp_path, input=asked, capture_output=True, text=True, check=True).stdout
    assert json.loads(said)["reward"] == 0.0


@pytest.mark.live
@pytest.mark.parametrize("is_server", [False, True])
def test_a_new_package_is_built_and_tests_itself(is_server: bool, tmp_path: Path) -> None:
    """Building a wheel fetches hatchling; checking a server starts it a hundred times."""
    made = make_package("acme/price-list", tmp_path / "shop", is_server=is_server)
    assert (build_bundle(made.directory, tmp_path).wheel is None) == is_server
    own = [sys.executable, "-m", "pytest", "-q"]
    tests = subprocess.run(
        own, cwd=made.directory, env=environment(), capture_output=True, text=True, check=False, timeout=300
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr


def test_nothing_is_overwritten(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "price_list").mkdir()
    (tmp_path / "price_list" / "mine.txt").write_text("mine")
    assert "nothing is overwritten" in hub("new", "price_list").refused()
    assert [path.name for path in (tmp_path / "price_list").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Price",
        "1st",
        "a b",
        "acme/",
        "/x",
        "a/b/c",
        "import",
        "json",
        "rollouthub",
        "../x",
        "my_lab/x",
        "a--b",
        "acme/con",
    ],
)
def test_names_that_cannot_be_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        make_package(name, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_one_name_makes_the_others() -> None:
    names = names_of("acme/price-list")
    assert vars(names) == {
        "registered": "acme/price-list",
        "distribution": "acme-price-list",
        "module": "price_list",
        "title": "PriceList",
    }
    assert names_of("my_env_9").registered == "local/my_env_9"
