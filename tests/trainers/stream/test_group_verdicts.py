"""A supply of an environment that scores groups: a group is handed out after its verdict, and not before."""

from pathlib import Path

import anyio
import pytest

import rollouthub
from rollouthub.errors import ConfigError
from rollouthub.store import open_run
from rollouthub.trainers.stream import rollout_worker

from .conftest import all_of, settings, supplied

RANKED = (str(Path(__file__).with_name("ranked.py")),)


async def test_a_group_is_handed_out_with_the_scores_of_its_verdict(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, epochs=2) as supply:
        groups = await all_of(supply)
    assert len(groups) == 6
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0, 3.0] for group in groups)
    with open_run(tmp_path / "run") as run:
        assert (run.info.status, run.totals().attempts, run.waiting()) == ("finished", 24, 0)


async def test_a_group_with_a_broken_sample_is_judged_without_it(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, world={"broken": 1}, min_group=3) as supply:
        groups = await all_of(supply)
    assert groups
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0] and len(group.lost) == 1 for group in groups)
    assert {rollout.score and rollout.score.feedback for group in groups for rollout in group.rollouts} == {"3"}


async def test_a_supply_that_is_left_in_mid_group_goes_on_with_it(tmp_path: Path) -> None:
    async with supplied(tmp_path, environments=RANKED, epochs=1) as supply:
        first = await anext(supply)
    async with supplied(tmp_path, environments=RANKED, epochs=1, resume=True) as supply:
        rest = await all_of(supply)
    assert {group.task.id for group in (first, *rest)} == {"0", "1", "2"}
    assert all(sorted(group.rewards) == [0.0, 1.0, 2.0, 3.0] for group in (first, *rest))


async def test_single_rollouts_of_it_are_refused(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(ConfigError, match="all samples of a task together"):
        async with rollouthub.stream_rollouts(groups=False, **settings(tmp_path, environments=RANKED)):
            pass


async def test_a_worker_that_plays_single_samples_refuses_it(tmp_path: Path) -> None:
    chosen = {name: value for name, value in settings(tmp_path, environments=RANKED).items() if name != "batch"}
    with anyio.fail_after(60), pytest.raises(ConfigError, match="all samples of a task together"):
        async with rollout_worker(**chosen):
            pass
