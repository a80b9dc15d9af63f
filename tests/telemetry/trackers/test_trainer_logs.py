"""What trainers log is read back, and put beside the rollouts that belong to each step."""

import json
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter  # pyright: ignore

from rollouthub import Score
from rollouthub.errors import DataError, UsageError
from rollouthub.telemetry.trackers.trainer_curves import put_beside
from rollouthub.telemetry.trackers.trainer_logs import TrainerStep, read_trainer_logs
from tests.store.records import record, write


def test_event_files_are_read_by_the_names_trainers_give(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "logs"))  # pyright: ignore
    for name, value in (("train/loss", 0.5), ("train/kl", 0.25), ("train/grad_norm", 2.0), ("eval/loss", 9.0)):
        writer.add_scalar(name, value, 3)  # pyright: ignore
    writer.close()  # pyright: ignore
    (step,) = read_trainer_logs(tmp_path)
    assert (step.step, step.values) == (3, {"loss": 0.5, "kl": 0.25, "grad_norm": 2.0})
    assert step.seconds is not None


def test_a_log_history_is_read_from_every_checkpoint(tmp_path: Path) -> None:
    for last in (2, 4):
        folder = tmp_path / f"checkpoint-{last}"
        folder.mkdir()
        history = [{"step": step, "loss": 1 / step, "kl": 0.1, "reward": 0.5} for step in range(1, last + 1)]
        history.append({"step": last, "train_runtime": 3.5})
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    steps = read_trainer_logs(tmp_path)
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert steps[3].values == {"loss": 0.25, "kl": 0.1, "trainer_reward": 0.5}


def test_json_lines_may_be_flat_or_nested_and_cut_off(tmp_path: Path) -> None:
    flat = {"global_step": 1, "policy_loss": 0.5, "ppo_kl": 0.01, "timestamp": 100.0}
    nested = {
        "step": 2,
        "data": {"actor/pg_loss": 0.25, "actor/grad_norm": 1.5, "critic/loss": 7.0, "critic/rewards/mean": 0.75},
    }
    (tmp_path / "metrics.jsonl").write_text(f'{json.dumps(flat)}\n{json.dumps(nested)}\n[1]\n{{"step": 3, "lo')
    first, second = read_trainer_logs(tmp_path / "metrics.jsonl")
    assert (first.seconds, first.values) == (100.0, {"loss": 0.5, "kl": 0.01})
    assert (second.seconds, second.values) == (None, {"loss": 0.25, "grad_norm": 1.5, "trainer_reward": 0.75})


def test_a_folder_without_a_trainers_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no log of a trainer"):
        read_trainer_logs(tmp_path)
    with pytest.raises(UsageError, match="there are no trainer's logs"):
        read_trainer_logs(tmp_path / "gone")
    (tmp_path / "trainer_state.json").write_text("{}")
    with pytest.raises(DataError, match="log_history"):
        read_trainer_logs(tmp_path)


async def test_rollouts_stand_beside_the_step_whose_policy_played_them(tmp_path: Path) -> None:
    records = [
        record(f"g{version}{number}-0", policy_version_min=version, score=Score(reward=version / 4, passed=number > 0))
        for version in (1, 2)
        for number in range(2)
    ]
    await write(tmp_path / "run", records)
    beside = put_beside(tmp_path / "run", [TrainerStep(1), TrainerStep(2), TrainerStep(3)])
    assert beside.alignment == "policy_version"
    assert [(row.scored, row.mean_reward, row.pass_rate) for row in beside.rows] == [
        (2, 0.25, 0.5),
        (2, 0.5, 0.5),
        (0, None, None),
    ]


async def test_rollouts_without_versions_stand_beside_the_step_that_ended_next(tmp_path: Path) -> None:
    # Each ends three seconds after it began.
    await write(tmp_path / "run", [record(f"g{number}-0", started_at=100.0 + number) for number in range(5)])
    beside = put_beside(tmp_path / "run", [TrainerStep(1, 104.5), TrainerStep(2, 106.0)])
    assert beside.alignment == "time"
    assert [row.scored for row in beside.rows] == [2, 2]


async def test_nothing_is_put_beside_where_nothing_says_what_belongs_together(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record()])
    beside = put_beside(tmp_path / "run", [TrainerStep(1)])
    assert (beside.alignment, beside.rows[0].mean_reward) == ("none", None)
