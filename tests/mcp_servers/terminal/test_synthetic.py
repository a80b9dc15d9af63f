"""Harbor tasks made by a script: all are listed, and a sample is played here and by plain docker with one result."""

import json
import os
import random
import resource
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from rollouthub.plugins.importers import ImportSource, find_importer
from rollouthub.store import open_run
from tests.mcp_servers.harbor_synthetic import (
    SETTINGS,
    TRAITS,
    Agent,
    Listener,
    make_refused,
    make_tasks,
    play_by_docker,
)

HUB = Path(sys.executable).parent / "hub"
ANSWER = "the listener's word"
PLAYED, PER_TRAIT = 200, 25
AT_ONCE = 4


def given(settings: dict[str, str]) -> list[str]:
    return [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]


@contextmanager
def listening() -> Generator[Listener]:
    """Something on the engine's bridge that tests with a network can ask, and no container without one."""
    command = ["docker", "network", "inspect", "bridge", "-f", "{{json (index .IPAM.Config 0)}}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"the engine has no bridge: {found.stderr}")
    bridge: dict[str, str] = json.loads(found.stdout)
    host = bridge.get("Gateway") or str(next(ip_network(bridge["Subnet"]).hosts()))

    class Answering(BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(f"{ANSWER}\n".encode())

    try:
        listener = ThreadingTCPServer((host, 0), Answering)
    except OSError as error:
        pytest.skip(f"the engine's bridge is not on this machine: {error}")
    with listener as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Listener(str(server.server_address[0]), server.server_address[1], ANSWER.replace("'", "'\\''"))
        finally:
            server.shutdown()
            thread.join()


def rewards_here(tasks: Path, names: list[str], agent: Agent, images: str, out: Path) -> dict[str, float | None]:
    """Each task's reward as the hub gives it; None of one that is unscored."""
    (out / "ids.txt").write_text("\n".join(names))
    command = [HUB, "run", "terminal", "--set", f"data={tasks}", *given(SETTINGS), "--task", f"@{out / 'ids.txt'}"]
    command += ["-a", agent, "-c", str(AT_ONCE), "-q", "--no-track", "-o", str(out / agent), "--json"]
    own = {**os.environ, "ROLLOUTHUB_IMAGES": images}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert done.returncode in (0, 1), done.stderr
    with open_run(out / agent) as reader:
        return {row.task_id: row.reward for row in reader.summaries()}


def rewards_there(tasks: Path, names: list[str], agent: Agent) -> dict[str, float | None]:
    """Each task's reward by plain docker."""
    folders = [tasks / name for name in names]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(play_by_docker, folders, [agent] * len(names)), strict=True))


def compare(tmp_path: Path, count: int, per_trait: int, images: str, agents: tuple[Agent, ...]) -> None:
    with listening() as listener:
        make_tasks(tmp_path, count, 1, listener)
        tasks = tmp_path / "tasks"
        names = sorted(path.name for path in tasks.iterdir())
        chance = random.Random(1)
        by_trait = [[name for name in names if name.startswith(trait)] for trait in TRAITS]
        sample = [name for group in by_trait for name in sorted(chance.sample(group, per_trait))]
        for agent in agents:
            here = rewards_here(tasks, sample, agent, images, tmp_path)
            there = rewards_there(tasks, sample, agent)
            other = {name: (here.get(name), there[name]) for name in sample if here.get(name) != there[name]}
            assert not other, f"{agent}, {len(other)} of {len(sample)} (here, there): {other}"


def test_all_made_tasks_can_be_run_with_the_traits_that_others_stumble_over(tmp_path: Path) -> None:
    make_tasks(tmp_path, 10 * len(TRAITS), 1)
    found = find_importer("harbor").look(ImportSource(str(tmp_path / "tasks"), "folder"), SETTINGS)
    assert [candidate for candidate in found if not candidate.runs] == []
    assert len(found) == 10 * len(TRAITS)


def test_of_a_set_with_what_is_not_offered_all_else_is_taken_and_the_rest_refused_by_its_field(tmp_path: Path) -> None:
    make_tasks(tmp_path, 200, 1)
    refused = make_refused(tmp_path, 10)
    found = find_importer("harbor").look(ImportSource(str(tmp_path / "tasks"), "folder"), SETTINGS)
    left = {candidate.id: "; ".join(candidate.reasons) for candidate in found if not candidate.runs}
    assert left.keys() == refused.keys()
    assert len(left) <= 0.05 * len(found)
    for name, (file, field) in refused.items():
        assert file in left[name], name
        assert field in left[name], name


@pytest.mark.parametrize("per_trait", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_dozen_made_tasks_get_the_rewards_that_plain_docker_gives_them(
    images: str, tmp_path: Path, per_trait: int
) -> None:
    compare(tmp_path, 12 * len(TRAITS), per_trait, images, ("oracle",))


@pytest.mark.soak
def test_three_thousand_made_tasks_are_listed_and_two_hundred_played_with_one_result(
    images: str, tmp_path: Path
) -> None:
    make_tasks(tmp_path / "listed", 3000, 1)
    command = [HUB, "import", "harbor", str(tmp_path / "listed" / "tasks"), *given(SETTINGS), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 30
    assert after.ru_maxrss < 200 * 1024, "kB"
    assert (told["runs"], told["refused"]) == (3000, 0)
    compare(tmp_path, 3000, PER_TRAIT, images, ("oracle", "null"))


@pytest.mark.soak
def test_a_solution_of_more_than_two_minutes_is_played_to_its_end(images: str, tmp_path: Path) -> None:
    make_tasks(tmp_path, len(TRAITS), 1, slow_seconds=125)
    slow = next(path for path in (tmp_path / "tasks").iterdir() if path.name.startswith("slow"))
    settings = slow / "task.toml"
    settings.write_text(settings.read_text().replace("timeout_sec = 60\n[verifier]", "timeout_sec = 300\n[verifier]"))
    assert rewards_here(tmp_path / "tasks", [slow.name], "oracle", images, tmp_path)[slow.name] == play_by_docker(
        slow, "oracle"
    )
