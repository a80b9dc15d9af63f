"""What was made before the project had its name, at commit 8ee2b6c, opens, resumes, shows, verifies and exports."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from .conftest import Hub

EXAMPLES = Path(__file__).parents[2] / "examples"
MADE = Path(__file__).parents[1] / "made_as_envhub"
DIGEST = "sha256:99ebf7185009de78adb9db9f736c77fd066899ce057f529597b2df9610171273"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return shutil.copytree(MADE, tmp_path, dirs_exist_ok=True)


def test_a_run_is_shown_exported_reported_and_resumed(hub: Hub, made: Path) -> None:
    assert hub("show", "run", "--json").json["outcomes"] == {"scored": 4}
    assert hub("export", "run", "-o", "rollouts.jsonl").code == 0
    exported = [json.loads(line) for line in (made / "rollouts.jsonl").read_text().splitlines()]
    assert [record["outcome"] for record in exported] == ["scored"] * 4
    assert hub("report", "run", "-o", "report.html").code == 0
    assert "--lock run/envhub.lock" in (made / "report.html").read_text()
    shutil.copy(EXAMPLES / "dice.py", made)
    assert hub("run", "--resume", "-o", "run", "--limit", "6", "--json", "-q").json["scored"] == 6


def test_a_lock_is_held_to_and_followed_by_one_of_the_present_name(hub: Hub, made: Path) -> None:
    old = (made / "envhub.lock").read_text()
    shutil.copy(EXAMPLES / "dice.py", made)
    assert hub("run", "dice.py", "--locked", "--limit", "1", "-o", "more", "-q").code == 0
    assert hub("lock", "arithmetic").code == 0
    assert (made / "envhub.lock").read_text() == old
    locked = tomllib.loads((made / "hub.lock").read_text())["environments"]
    assert [each["name"] for each in locked] == ["arithmetic", "dice"]


def test_a_registry_and_its_signed_bundle_are_read_and_verified(hub: Hub, made: Path) -> None:
    registry = (made / "registry").as_uri()
    told = hub("info", "lab/words", "--registry", registry, "--json", XDG_DATA_HOME=str(made / "home")).json
    assert DIGEST.removeprefix("sha256:") in json.dumps(told)
    own = {"HOME": str(made / "home"), "XDG_DATA_HOME": str(made / "home"), "XDG_CONFIG_HOME": str(made / "home")}
    installed = hub("install", "lab/words", "--registry", registry, "--json", "-q", **own)
    assert installed.code == 0, installed.err
    assert DIGEST in installed.out


def test_an_environment_file_that_imports_the_old_name_is_told_the_new_one(hub: Hub, made: Path) -> None:
    assert "write `from rollouthub import …`" in hub("run", "dice.py", "--limit", "1").refused()


def test_code_that_is_made_to_import_another_package_of_the_old_name_is_other_code(hub: Hub, made: Path) -> None:
    own = (EXAMPLES / "dice.py").read_text()
    swapped = own.replace("import random\n", "import random\n\nif False:\n    import envhub\n")
    (made / "dice.py").write_text(own.replace("import random\n", "import random\n\nif False:\n    import rollouthub\n"))
    assert hub("lock", "dice.py").code == 0
    (made / "dice.py").write_text(swapped)
    assert "is not what the lock names" in hub("run", "dice.py", "--locked", "--limit", "1", "-o", "more").refused()
