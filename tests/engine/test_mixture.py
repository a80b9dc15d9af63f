"""A mixture of environments, from its first task to its figures: resumed, served, from Python, and told apart."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.store import open_run
from tests.engine.resuming import half_broken, play, summed_up

MIXED: dict[str, Any] = {"environments": ("arithmetic", "customer_service"), "weights": {"arithmetic": 3}, "limit": 12}


def played(directory: Path) -> Counter[str]:
    """How many rollouts each environment has, each task counted once."""
    with open_run(directory) as reader:
        found = [(record.environment.name, record.task.id) for record in reader.rollouts()]
    assert len(set(found)) == len(found)
    return Counter(name for name, _ in found)


async def test_figures_are_given_for_each_environment_and_for_all(tmp_path: Path) -> None:
    await play(RunRequest.model_validate({**MIXED, "model": "mock/solver"}), tmp_path / "run")
    figures = summed_up(tmp_path / "run").as_json()
    assert figures["rollouts"] == 16
    environments = figures["environments"]
    assert {name: each["tasks"] for name, each in environments.items()} == {"arithmetic": 12, "customer_service": 4}
    assert environments["arithmetic"]["mean_reward"] == 1.0
    whole = sum(each["mean_reward"] * each["scored"] for each in environments.values()) / 16
    assert figures["mean_reward"] == pytest.approx(whole)


async def test_a_mixture_that_broke_is_resumed_with_the_same_tasks(tmp_path: Path) -> None:
    """Odd tasks of one environment break in the first part; what is played again is these alone."""
    world = half_broken(tmp_path)
    values: dict[str, Any] = {
        "environments": [str(world), "arithmetic"],
        "agent": "null",
        "weights": {"arithmetic": 2},
        "set": {"arithmetic.size": 60},
        "retries": {"infrastructure": 0},
    }
    first = await play(build_request(values, "test"), tmp_path / "run")
    assert first.planned == 90
    assert summed_up(tmp_path / "run").scored == 75
    with open_run(tmp_path / "run") as reader:
        tasks = {(record.environment.name, record.task.id) for record in reader.rollouts()}
    (tmp_path / "broken").unlink()
    second = await play(build_request(values, "test"), tmp_path / "run", resume=True)
    assert (second.planned, second.done) == (90, 75)
    assert summed_up(tmp_path / "run").scored == 90
    assert played(tmp_path / "run") == {"half_broken": 30, "arithmetic": 60}
    with open_run(tmp_path / "run") as reader:
        assert {(record.environment.name, record.task.id) for record in reader.rollouts()} == tasks


async def test_served_environments_mix_as_those_of_this_process_do(tmp_path: Path) -> None:
    for name, settings in (("here", {}), ("served", {"served": True})):
        await play(RunRequest.model_validate({**MIXED, **settings, "agent": "oracle"}), tmp_path / name)
    assert played(tmp_path / "here") == played(tmp_path / "served") == {"arithmetic": 12, "customer_service": 4}


def test_python_and_files_mix_by_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {"weights": {"customer_service": 0.5}, "limit": 4}
    run = rollouthub.evaluate(["arithmetic", "customer_service"], None, agent="oracle", directory="run", **settings)
    assert (run.summary.scored, run.mean_reward) == (6, 1.0)
    assert played(tmp_path / "run") == {"arithmetic": 4, "customer_service": 2}
