"""Whatever an environment is made from, it is published, installed and run in the same way.

Live: wheels are built, and dependencies had from an index.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import HUB, environment

pytestmark = pytest.mark.live

SHOPPING = Path(__file__).parents[2] / "examples" / "mcp_server"
TASKS = Path(__file__).parents[1] / "mcp_servers" / "harbor_tasks"
People = Callable[..., str]


@pytest.fixture
def people(tmp_path: Path) -> People:
    """Runs a `hub` of somebody's own, and gives what it printed."""

    def run(who: str, *arguments: str | Path) -> str:
        own = environment(XDG_CONFIG_HOME=str(tmp_path / who / "config"), XDG_DATA_HOME=str(tmp_path / who / "data"))
        own |= {"ROLLOUTHUB_REGISTRY": f"file://{tmp_path}/registry"}
        command = [*HUB, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    (tmp_path / "registry").mkdir()
    return run


def exchanged(people: People, folder: str, name: str) -> float:
    """One publishes, the other installs and runs it; the mean reward of the references."""
    assert people("one", "publish", folder, "-q", "--quick") == ""
    people("other", "install", name, "--no-lock")
    summary = json.loads(people("other", "run", name, "-a", "oracle", "--limit", "3", "--json", "-q"))
    assert summary["scored"] == summary["rollouts"]
    return summary["mean_reward"]


@pytest.mark.parametrize("name", ["arithmetic", "customer_service"])
def test_one_of_the_hubs_own(name: str, people: People) -> None:
    assert exchanged(people, name, f"rollouthub/{name}") == 1.0


def test_a_preset_with_the_data_it_is_checked_with(people: People, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    row = {"question": "What is 2 + 2?", "answer": "Two and two are 4.\n#### 4"}
    (tmp_path / "data" / "test.jsonl").write_text(json.dumps(row) + "\n")
    people("one", "publish", "gsm8k", "-q", "--quick", "--set", f"data={tmp_path}/data")
    people("other", "install", "rollouthub/gsm8k")
    ran = people("other", "run", "rollouthub/gsm8k", "--set", f"data={tmp_path}/data", "--json", "-q")
    assert json.loads(ran)["mean_reward"] == 1.0


@pytest.mark.parametrize("kind", [(), ("--server",)])
def test_a_new_package_as_it_is(kind: tuple[str, ...], people: People) -> None:
    people("one", "new", "acme/price-list", "-o", "new", *kind)
    assert exchanged(people, "new", "acme/price-list") == 1.0


def test_a_server_of_somebody_elses_once_its_tasks_are_written(people: People, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text((SHOPPING / "server.py").read_text())
    made = ("--output", "new", "--name", "lab/list", "--license", "MIT")
    people("one", "import", "mcp", *made, "--requirement", "mcp>=1.12,<2", "--", "python", "shop.py", "list.json")
    for file in ("tasks.jsonl", "verify.py"):
        (tmp_path / "new" / file).write_text((SHOPPING / file).read_text())
    assert exchanged(people, "new", "lab/list") == 1.0


def test_imported_tasks_find_themselves_where_they_are_installed(people: People, tmp_path: Path) -> None:
    """Without the gate, which needs a container engine: the bundle alone is installed, and lists its tasks."""
    from rollouthub_registry.bundle.bundle import build_bundle

    people("one", "import", "harbor", TASKS, "--output", "new", "--name", "lab/set", "--set", "network=none")
    bundle = build_bundle(tmp_path / "new", tmp_path)
    people("other", "install", bundle.path, "--unsigned")
    python = next((tmp_path / "other").rglob("bin/python"))
    listing = (
        "from set_tasks import Imported, ImportedConfig as Config\n"
        "print(*(task.id for task in Imported.tasks(Config(), 'test', 0)))"
    )
    said = subprocess.run([python, "-I", "-c", listing], capture_output=True, text=True, check=True).stdout
    assert "greeting" in said.split()
