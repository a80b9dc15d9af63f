"""`hub import harbor`: what runs, what is refused and why, and a copy that stands for itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envhub import BadRow
from envhub.errors import ConfigError, UnknownNameError
from envhub.importers import find_importer
from envhub.plugins import find_environment
from tests.mcp_servers.containers import TASKS

HUB = Path(sys.executable).parent / "hub"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three tasks: one that runs, one that does not say its network, and one that cannot be read."""
    tasks = tmp_path / "tasks"
    shutil.copytree(TASKS / "greeting", tasks / "good")
    shutil.copytree(TASKS / "greeting", tasks / "open")
    settings = tasks / "open" / "task.toml"
    settings.write_text(settings.read_text().replace("allow_internet = false\n", ""))
    shutil.copytree(TASKS / "greeting", tasks / "odd")
    with (tasks / "odd" / "task.toml").open("a") as file:
        file.write("gravity = 9.81\n")
    return tasks


def test_every_task_is_looked_at(folder: Path) -> None:
    good, odd, unsaid = find_importer("harbor").look(folder, {})
    assert (good.id, good.runs) == ("good", True)
    assert good.facts == {"steps": 1, "image": "Dockerfile", "profile": "root-compat", "network": "none"}
    assert odd.reasons == (
        "task.toml: the key 'environment.gravity' is not known, so what it asks for would not be done",
    )
    assert "network_mode is not declared" in unsaid.reasons[0]
    assert [each.runs for each in find_importer("harbor").look(folder, {"network": "none"})] == [True, False, True]


def test_a_copy_of_what_runs_is_an_environment_of_its_own(folder: Path, tmp_path: Path) -> None:
    file = find_importer("harbor").write(folder, {"network": "none"}, tmp_path / "out")
    shutil.rmtree(folder)
    found = find_environment(str(file))
    tasks = list(found.environment.tasks(found.environment.config_type(), "test", 0))
    assert [task.error if isinstance(task, BadRow) else task.id for task in tasks] == ["good", "open"]
    with pytest.raises(ConfigError, match="is there already"):
        find_importer("harbor").write(TASKS, {}, tmp_path / "out")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        find_importer("harbor").look(tmp_path / "none", {})
    with pytest.raises(ConfigError, match="no setting of environment 'terminal' is named 'netwrk'"):
        find_importer("harbor").look(TASKS, {"netwrk": "none"})
    with pytest.raises(UnknownNameError, match="no importer is named 'harbour'; did you mean 'harbor'"):
        find_importer("harbour")


def test_the_command_tells_what_runs_and_how_to_run_it(folder: Path) -> None:
    shown = subprocess.run([HUB, "import", "harbor", folder], capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert "1 of 3 can be run." in shown.stdout
    found = subprocess.run([HUB, "import", "harbor", TASKS, "--json"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert (told["runs"], told["refused"]) == (6, 0)
    assert told["command"] == f"hub run terminal --set data={TASKS}"
    assert [task["id"] for task in told["tasks"] if task["facts"]["profile"] == "hardened"] == ["plain_user"]
