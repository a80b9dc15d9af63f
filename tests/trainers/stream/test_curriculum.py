"""A curriculum: tasks that are always or never passed rest for some epochs, also in a supply that was taken up again.

Of six tasks two are always solved, the others every other time. One group is under way at a time, so that all is known
of a task when its next epoch comes.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import rollouthub
from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError, UsageError
from rollouthub.trainers.stream.ledger import Ledger, PassRate
from tests.engine.resuming import play

from .conftest import WORLD, all_of, settings, supplied

BAND: dict[str, Any] = {
    "world": {"solved": 2},
    "band": (0.2, 0.8),
    "band_rest": 2,
    "batch": 1,
    "buffer": 1,
    "shuffle": False,
    "max_staleness": None,
}


async def test_what_is_solved_rests_and_comes_again(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=4, **BAND) as supply:
        played = Counter(group.task.id for group in await all_of(supply))
        assert supply.stats.resting == 4
    assert played == {"0": 2, "1": 2, "2": 4, "3": 4, "4": 4, "5": 4}


async def test_a_resumed_supply_knows_what_rests(tmp_path: Path) -> None:
    async with supplied(tmp_path, epochs=1, **BAND) as supply:
        assert len(await all_of(supply)) == 6
    async with supplied(tmp_path, epochs=3, resume=True, **BAND) as supply:
        assert sorted({group.task.id for group in await all_of(supply)}) == ["2", "3", "4", "5"]


async def test_an_earlier_runs_pass_rates_are_where_a_supply_begins(tmp_path: Path) -> None:
    """What it always passed rests first, also in a supply that was taken up again once the earlier run is gone."""
    first = tmp_path / "first"
    values = {"environments": str(WORLD), "model": "mock/say?text=x", "set": {"solved": 2}, "repeats": 4}
    await play(build_request(values, "a test"), first)
    rules = BAND | {"band_from": str(first)}
    async with supplied(tmp_path / "supply", epochs=1, **rules) as supply:
        assert sorted({group.task.id for group in await all_of(supply)}) == ["2", "3", "4", "5"]
        assert supply.stats.resting == 2
    shutil.rmtree(first)
    async with supplied(tmp_path / "supply", epochs=3, resume=True, **rules) as supply:
        played = Counter(group.task.id for group in await all_of(supply))
    assert played == {"0": 1, "1": 1, "2": 2, "3": 2, "4": 2, "5": 2}


async def test_a_curriculum_of_no_band_or_no_run_is_refused(tmp_path: Path) -> None:
    for wrong, said in (({"band": None}, "band_from says where"), ({}, "nowhere")):
        with pytest.raises(UsageError, match=said):
            async with supplied(tmp_path, **(BAND | {"band_from": str(tmp_path / "nowhere")} | wrong)):
                pass


async def test_weights_that_went_back_forget_what_newer_ones_passed(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path, resume=False) as ledger:
        for version in (3, 4, 5):
            ledger.note_rate(PassRate("world", "test", str(version), 0, version, 1.0))
        await ledger.rewind(4)
        assert [seen.task_id for seen in await ledger.pass_rates()] == ["3"]


async def test_an_endless_supply_goes_on_when_everything_rests(tmp_path: Path) -> None:
    rules = BAND | {"world": {"solved": 6}}
    async with supplied(tmp_path, epochs=None, **rules) as supply:
        assert len(await supply.batch(12)) == 12
        assert supply.stats.resting >= 12


def states_until_killed(folder: Path) -> list[dict[str, Any]]:
    """Let a trainer take three batches, and kill it; what its checkpoints kept."""
    command = [sys.executable, str(Path(__file__).with_name("curriculum_trainer.py")), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        states = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.kill()
    return states


async def test_a_checkpoint_of_a_killed_trainer_goes_on_in_a_new_directory(tmp_path: Path) -> None:
    """What rested when it was killed rests on: its directory is gone, and its checkpoint's state is all there is."""
    states = await anyio.to_thread.run_sync(states_until_killed, tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed")
    assert [task for _, _, task, *_ in states[0]["resting"]] == ["0"]
    assert states[2] == {"policy_version": 3, "resting": [["world", "test", task, 0, 1.0] for task in "01"]}
    async with supplied(tmp_path, epochs=4, state=states[2], **BAND) as supply:
        assert supply.policy_version == 3
        resting = [["world", "test", task, 1, 1.0] for task in "01"]
        assert supply.state() == {"policy_version": 3, "resting": resting}
        played = Counter(group.task.id for group in await all_of(supply))
        assert supply.stats.resting == 4 + 2  # two epochs, and one more after they were played
    assert played == {"0": 1, "1": 1, "2": 4, "3": 4, "4": 4, "5": 4}
    async with supplied(tmp_path, epochs=4, resume=True, state=states[0], **BAND) as supply:
        assert not await all_of(supply), "its own directory knows better"
        assert supply.policy_version == 3


@pytest.mark.parametrize(
    "state",
    [{}, {"policy_version": -1, "resting": []}, {"policy_version": 1, "resting": [["e", "s", "t", 0, 7.0]]}],
    ids=["empty", "version", "rate"],
)
async def test_what_is_no_state_is_refused(state: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="state is none that"):
        rollouthub.stream_rollouts(**settings(tmp_path, state=state, **BAND))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"band": (0.8, 0.2)}, "the lower one first"), ({"band": (0, 2)}, "from 0 to 1"), ({"groups": False}, "band is")],
)
async def test_a_band_that_cannot_hold_is_refused(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        async with rollouthub.stream_rollouts(**settings(tmp_path, **{"band": (0.2, 0.8)} | wrong)):
            pass


async def test_a_mixture_goes_on_in_the_next_epoch_where_it_ended(tmp_path: Path) -> None:
    mixed = {"environments": ("arithmetic", "customer_service"), "limit": 6, "weights": {"customer_service": 0.5}}
    async with supplied(tmp_path, epochs=2, repeats=1, **mixed) as supply:
        played = Counter((group.environment.name, group.task.id) for group in await all_of(supply))
    assert {count for (name, _), count in played.items() if name == "arithmetic"} == {2}
    assert sum(name == "customer_service" for name, _ in played) == 6
    assert {count for (name, _), count in played.items() if name == "customer_service"} == {1}
