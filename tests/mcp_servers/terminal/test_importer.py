"""`hub import harbor`: what runs, what is refused and why, and a copy that stands for itself."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub import BadRow
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.bundle import build_bundle, extract
from rollouthub_registry.bundle.file_selection import collect
from rollouthub_registry.manifest import check_publishable
from tests.mcp_servers.containers import TASKS

HUB = Path(sys.executable).parent / "hub"


def set_in(folder: Path) -> ImportSource:
    """A folder of tasks, as the command names it."""
    return ImportSource(str(folder), "folder")


def write(folder: Path, settings: dict[str, JsonValue], out: Path, identity: Identity) -> Path:
    """Write every task of a folder that can be run; what `hub run` takes."""
    source, harbor = set_in(folder), find_importer("harbor")
    found = harbor.look(source, settings)
    return harbor.write(source, [each.id for each in found], settings, out, identity)[0]


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
    good, odd, unsaid = find_importer("harbor").look(set_in(folder), {})
    assert (good.id, good.runs) == ("good", True)
    assert good.facts == {"steps": 1, "image": "Dockerfile", "profile": "root-compat", "network": "none"}
    assert odd.reasons == (
        "task.toml: the key 'environment.gravity' is not known, so what it asks for would not be done; "
        """leave it out with --set 'ignore=["environment.gravity"]'""",
    )
    assert (odd.lifted_by, unsaid.lifted_by) == (('ignore=["environment.gravity"]',), ("network=none",))
    assert "network_mode is not declared" in unsaid.reasons[0]
    assert [each.runs for each in find_importer("harbor").look(set_in(folder), {"network": "none"})] == [
        True,
        False,
        True,
    ]


def test_a_copy_of_what_runs_is_an_environment_of_its_own(folder: Path, tmp_path: Path) -> None:
    file = write(folder, {"network": "none"}, tmp_path / "out", Identity())
    shutil.rmtree(folder)
    found = find_environment(str(file))
    tasks = list(found.environment.tasks(found.environment.config_type(), "test", 0))
    assert [task.error if isinstance(task, BadRow) else task.id for task in tasks] == ["good", "open"]
    with pytest.raises(ConfigError, match="is there already"):
        write(TASKS, {}, tmp_path / "out", Identity())


def test_a_copy_can_be_published_and_finds_its_tasks_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="building a wheel without the network needs hatchling here")
    out = tmp_path / "1st Set"
    write(TASKS, {"network": "none"}, out, Identity(name="lab/1st-set", license="MIT"))
    texts = [path.read_text() for path in (out / "env.toml", out / "1st_set_tasks.py") if path.exists()]
    texts += [path.read_text() for path in out.glob("*") if path.is_file()]
    assert not [text for text in texts if str(tmp_path) in text or str(TASKS) in text]
    manifest = load_manifest(out / "env.toml")
    assert (manifest.name, manifest.license, manifest.python and manifest.python.entry) == (
        "lab/1st-set",
        "MIT",
        "_1st_set_tasks:Imported",
    )
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "wheel"]
    subprocess.run(built, cwd=out, capture_output=True, check=True)
    assert check_publishable(manifest, out / "env.toml") == []
    bundle = build_bundle(out, tmp_path)
    extract(bundle, tmp_path / "content")
    assert bundle.wheel is not None
    site = tmp_path / "site"
    with zipfile.ZipFile(tmp_path / "content" / bundle.wheel) as wheel:
        wheel.extractall(site)
    shutil.rmtree(out)
    listing = (
        "from _1st_set_tasks import Imported, ImportedConfig as Config\n"
        "print(*(task.id for task in Imported.tasks(Config(), 'test', 0)))"
    )
    own = {**os.environ, "PYTHONPATH": str(site)}
    said = subprocess.run([sys.executable, "-c", listing], env=own, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == sorted(path.name for path in TASKS.iterdir() if (path / "task.toml").is_file())


def test_files_that_a_bundle_leaves_out_elsewhere_are_kept_in_tasks(tmp_path: Path) -> None:
    shutil.copytree(TASKS / "greeting", tmp_path / "set" / "greeting")
    odd = tmp_path / "set" / "greeting" / "environment" / "node_modules" / "a" / "notes~"
    odd.parent.mkdir(parents=True)
    odd.write_text("part of the task")
    write(tmp_path / "set", {}, tmp_path / "out", Identity())
    paths = [source.path for source in collect(tmp_path / "out")]
    assert "tasks/greeting/environment/node_modules/a/notes~" in paths


def test_tasks_whose_licence_nobody_named_say_so(tmp_path: Path) -> None:
    write(TASKS, {}, tmp_path / "out", Identity())
    assert load_manifest(tmp_path / "out" / "env.toml").license == "LicenseRef-unstated"


@pytest.mark.parametrize("identity", [Identity(name="no-namespace"), Identity(license="Free for all")])
def test_a_name_or_a_licence_that_does_not_hold_writes_nothing(identity: Identity, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.toml:\d+: (name|license)"):
        write(TASKS, {}, tmp_path / "out", identity)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        find_importer("harbor").look(set_in(tmp_path / "none"), {})
    with pytest.raises(ConfigError, match="no setting of environment 'terminal' is named 'netwrk'"):
        find_importer("harbor").look(set_in(TASKS), {"netwrk": "none"})
    with pytest.raises(UnknownNameError, match="no importer is named 'harbour'; did you mean 'harbor'"):
        find_importer("harbour")


def test_the_command_tells_what_runs_and_how_to_run_it(folder: Path) -> None:
    shown = subprocess.run([HUB, "import", "harbor", folder], capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert "1 of 3 can be run." in shown.stdout
    assert "refused, 1: task.toml: the key 'environment.gravity'" in shown.stdout
    again = shown.stdout.splitlines()[-1]
    said, _, command = again.partition(": ")
    assert said == "2 of the refused can be run, too"
    more = subprocess.run([HUB, *shlex.split(command)[1:]], capture_output=True, text=True, check=False)
    assert more.returncode == 0, more.stdout
    assert "3 of 3 can be run." in more.stdout
    found = subprocess.run([HUB, "import", "harbor", TASKS, "--json"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert (told["runs"], told["refused"]) == (6, 0)
    assert told["command"] == f"hub run terminal --set data={TASKS}"
    assert [task["id"] for task in told["tasks"] if task["facts"]["profile"] == "hardened"] == ["plain_user"]


def test_the_command_writes_what_can_be_published(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    asked = [HUB, "import", "harbor", folder, "--output", out, "--name", "lab/set", "--license", "MIT", "--json"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert found.returncode == 1, found.stderr
    told = json.loads(found.stdout)
    assert (told["command"], told["publish"]) == (f"hub run {out}/set_tasks.py", f"hub publish {out}")
    asked[asked.index(out)] = tmp_path / "again"
    printed = subprocess.run(
        asked[:-1], capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}
    )
    assert printed.stdout.count("--build-network bridge lifts that.") == 1
    assert "Where others install them, Dockerfiles are built without a network:" in printed.stdout
    assert find_environment(told["command"].removeprefix("hub run ")).name == "set_tasks"
    lost = subprocess.run([HUB, "import", "harbour", folder], capture_output=True, text=True, check=False)
    assert lost.returncode == 2
    assert "did you mean 'harbor'" in lost.stderr
    alone = subprocess.run(
        [HUB, "import", "harbor", folder, "--name", "a/b"], capture_output=True, text=True, check=False
    )
    assert alone.returncode == 2


def test_refusals_are_grouped_and_what_lifts_them_is_said_where_nothing_runs(tmp_path: Path) -> None:
    for number in range(8):
        shutil.copytree(TASKS / "greeting", tmp_path / f"task-{number}")
        settings = tmp_path / f"task-{number}" / "task.toml"
        settings.write_text(settings.read_text().replace("allow_internet = false\n", ""))
    shown = subprocess.run([HUB, "import", "harbor", tmp_path], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert "0 of 8 can be run." in shown.stdout
    assert shown.stdout.count("network_mode is not declared") == 1
    assert "refused, 8: " in shown.stdout
    assert "task-0, task-1, task-2, task-3, task-4 and 3 more" in shown.stdout
    last = shown.stdout.splitlines()[-1]
    assert last == f"8 of the refused can be run, too: hub import harbor {tmp_path} --set network=none"
