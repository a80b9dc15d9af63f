"""Six tasks in Harbor's format, played through the command line in real containers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import warm
from tests.mcp_servers.containers import TASKS

NAMES = {"extra_package", "greeting", "hackable", "many_rewards", "plain_user", "two_steps"}


def hub(images: str, folder: Path, *arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the command line; its summary, and each rollout."""
    environment = os.environ | {"ROLLOUTHUB_IMAGES": images}
    run = warm().run(["run", *arguments, "-c", "2", "--json", "-q", "-o", "run"], folder, environment, 500)
    assert run.returncode == 0, run.stderr
    rows = folder / "rows.jsonl"
    warm().run(["export", "run", "-o", str(rows)], folder, environment, 60).check_returncode()
    return json.loads(run.stdout), [json.loads(line) for line in rows.read_text().splitlines()]


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), pytest.param("null", 0.0, marks=pytest.mark.soak)])
def test_the_oracle_solves_every_task_and_nothing_solves_none(
    images: str, tmp_path: Path, agent: str, reward: float
) -> None:
    _, rollouts = hub(images, tmp_path, "terminal", "--set", f"data={TASKS}", "-a", agent)
    assert {rollout["task"]["id"]: rollout["score"]["reward"] for rollout in rollouts} == dict.fromkeys(NAMES, reward)
    profiles = {rollout["task"]["id"]: rollout["sandboxes"][0]["profile"] for rollout in rollouts}
    assert profiles == dict.fromkeys(NAMES, "root-compat") | {"plain_user": "hardened"}
    assert {sandbox["network"] for rollout in rollouts for sandbox in rollout["sandboxes"]} == {"none"}
