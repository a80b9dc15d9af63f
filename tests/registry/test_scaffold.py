"""`hub new`: a package that works at once, by path and installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envhub.errors import ConfigError
from envhub_registry.scaffold.names import names_of
from envhub_registry.scaffold.package import make_package
from tests.cli.conftest import (
    Hub,
    environment,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)


def test_a_new_package_passes_its_own_tests(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    made = hub("new", "acme/price-list", "--dir", "shop", "--json")
    assert made.code == 0, made.err
    assert made.json["name"] == "acme/price-list"
    assert sorted(made.json["files"]) == sorted(
        str(path.relative_to(tmp_path / "shop")) for path in (tmp_path / "shop").rglob("*") if path.is_file()
    )
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=tmp_path / "shop",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    ran = hub("run", "shop/src/price_list.py", "--limit", "5", "--json", "-q")
    assert ran.json["mean_reward"] == 1.0


def test_an_installed_package_is_found_by_its_name(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    pytest.importorskip("hatchling", reason="building a package without the network needs hatchling here")
    make_package("acme/price-list", tmp_path / "shop")
    where = tmp_path / "installed"
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    target = ["--target", str(where), str(tmp_path / "shop")]
    command = [sys.executable, "-m", "pip", "install", *offline, *target]
    bare = environment(PIP_CONSTRAINT="")  # which may be a file's name relative to another folder
    built = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    listed = hub("list", "--json", PYTHONPATH=str(where))
    names = [environment["name"] for environment in json.loads(listed.out)["environments"]]
    assert "acme/price-list" in names
    ran = hub("run", "acme/price-list", "--in-process", "--limit", "5", "--json", "-q", PYTHONPATH=str(where))
    assert ran.code == 0, ran.err
    assert ran.json["mean_reward"] == 1.0


def test_nothing_is_overwritten(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "price_list").mkdir()
    (tmp_path / "price_list" / "mine.txt").write_text("mine")
    assert "nothing is overwritten" in hub("new", "price_list").refused()
    assert [path.name for path in (tmp_path / "price_list").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "name", ["", "Price", "1st", "a b", "acme/", "/x", "a/b/c", "import", "json", "envhub", "../x"]
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
