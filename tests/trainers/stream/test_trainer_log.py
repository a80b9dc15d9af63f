"""What a trainer logs of its steps, from `supply.log` to all who show a run."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import rollouthub
from rollouthub.errors import ConfigError
from rollouthub.live.follow import RunFeed
from rollouthub.store.trainer_steps import TRAINER_STEPS, read_steps
from rollouthub.telemetry.trackers.trainer_logs import read_trainer_logs
from rollouthub.trainers.stream import blocking
from rollouthub.views.terminal.timeline_curve import timeline_chart
from tests.cli.conftest import warm

from .conftest import settings, supplied


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Scalar:
    """A number of a trainer's library, as a tensor of one element is."""

    def __float__(self) -> float:
        return 0.25


async def test_figures_are_kept_by_step_and_shown_beside_the_rewards(tmp_path: Path) -> None:
    run = tmp_path / "run"
    feed = RunFeed(run)
    async with supplied(tmp_path) as supply:
        await supply.batch()
        await supply.log({"loss": 0.5, "kl": 0.125})
        feed.refresh()
        assert [step.metrics for step in feed.trainer.steps] == [{"loss": 0.5, "kl": 0.125}]
        assert not feed.trainer.refresh()
        await supply.publish_weights()
        await supply.log({"actor/loss": Scalar(), "grad_norm": float("nan")})
        await supply.log({"loss": 0.75}, step=0)  # the step was taken again
        await supply.batch()
    assert feed.refresh()
    assert [(step.step, step.metrics) for step in read_steps(run)] == [
        (0, {"loss": 0.75}),
        (1, {"actor/loss": 0.25, "grad_norm": None}),
    ]
    assert sorted(loss for _, loss in feed.trainer.losses) == [0.25, 0.75]
    drawn = timeline_chart(feed.timeline.points, 80, 16, feed.trainer.losses).plain
    assert "loss of the trainer, last 0.75" in drawn
    assert drawn.index("mean reward") < drawn.index("loss of the trainer")
    assert [step.values for step in read_trainer_logs(run)] == [{"loss": 0.75, "kl": 0.125}, {"loss": 0.25}]
    feed.close()


def test_hub_show_says_the_latest_step_in_words_and_as_json(tmp_path: Path) -> None:
    with blocking(rollouthub.stream_rollouts(groups=True, **settings(tmp_path))) as supply:
        supply.batch()
        supply.log({"loss": 0.5, "kl": float("inf")}, step=7)
    command = ["show", str(tmp_path / "run")]
    said = warm().run(command, tmp_path, os.environ, 60)
    assert "trainer: step 7, loss 0.5, kl –" in said.stdout
    said = warm().run([*command, "--json"], tmp_path, os.environ, 60)
    assert json.loads(said.stdout)["trainer"] == {"step": 7, "loss": 0.5, "kl": None}


def test_a_report_has_the_loss_as_a_chart_and_the_steps_as_a_table(tmp_path: Path) -> None:
    with blocking(rollouthub.stream_rollouts(groups=True, **settings(tmp_path))) as supply:
        supply.batch()
        for step in range(300):
            supply.log({"kl": 0.5, "loss": 4.0 - step / 100}, step=step)
    made = {form: tmp_path / f"report.{form}" for form in ("html", "md", "json")}
    for file in made.values():
        warm().run(["report", str(tmp_path / "run"), "-o", str(file)], tmp_path, os.environ, 60).check_returncode()
    html = made["html"].read_text()
    assert "Loss by step. 4 at step 0, 1.01 at step 299" in html
    assert "The trainer&#x27;s loss" in html or "The trainer's loss" in html
    assert "| 299 | 1.01 | 0.5 |" in made["md"].read_text()
    [run] = json.loads(made["json"].read_text())["runs"]
    assert len(run["trainer"]) == 200
    assert run["trainer"][-1]["figures"] == {"kl": 0.5, "loss": 4.0 - 299 / 100}


async def test_prometheus_reads_the_latest_figures_and_the_rewards_of_a_stream(tmp_path: Path) -> None:
    port = free_port()
    async with supplied(tmp_path, metrics=str(port)) as supply, aiohttp.ClientSession() as session:
        await supply.batch()
        await supply.log({"loss": 0.5, "old": 1.0})
        await supply.log({"loss": 0.25, "kl": float("nan")})
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            text = await response.text()
    assert 'rollouthub_trainer{figure="loss"} 0.25' in text
    assert 'figure="old"' not in text
    assert 'figure="kl"' not in text
    assert "rollouthub_reward_mean{" in text


@pytest.mark.parametrize(
    ("figures", "step", "says"),
    [
        ({}, None, "0 figures of a step were logged; give 1 to 64"),
        ({f"f{number}": 1 for number in range(65)}, None, "65 figures"),
        ({"\x1b[31mloss": 1.0}, None, "is no name of a figure"),
        ({"l" * 101: 1.0}, None, "is no name of a figure"),
        ({"loss": "0.5"}, None, "figure 'loss' = '0.5' is no number"),
        ({"loss": True}, None, "is no number"),
        ({"loss": [1.0]}, None, "is no number"),
        ({"loss": 1.0}, -1, "step -1 is no number of a step"),
    ],
    ids=["none", "many", "escape", "long", "text", "truth", "list", "step"],
)
async def test_what_is_no_figure_is_refused_in_words(
    tmp_path: Path, figures: dict[str, Any], step: int | None, says: str
) -> None:
    async with supplied(tmp_path) as supply:
        with pytest.raises(ConfigError, match=says.replace("[", r"\[")):
            await supply.log(figures, step=step)
    assert not (tmp_path / "run" / TRAINER_STEPS).exists()


def test_a_file_from_elsewhere_is_read_within_bounds_or_not_at_all(tmp_path: Path) -> None:
    good = {"step": 3, "time": 1.0, "metrics": {"loss": 0.5}}
    lines = [
        "[" * 200_000,
        '{"step": ' + "9" * 5000 + ', "time": 1, "metrics": {"loss": 1}}',
        '{"step": 1, "time": 1e400, "metrics": {"loss": 1}}',
        json.dumps({**good, "step": 2, "metrics": {"\x1b[31m": 1.0}}),
        json.dumps({**good, "step": 2, "metrics": {f"f{number}": 1.0 for number in range(65)}}),
        json.dumps(good),
        '{"step": 4, "time": 1.0, "metr',
    ]
    (tmp_path / TRAINER_STEPS).write_text("\n".join(lines))
    assert [(each.step, each.metrics) for each in read_steps(tmp_path)] == [(3, {"loss": 0.5})]
    (tmp_path / TRAINER_STEPS).write_bytes(b"x" * 2**23 + b"\n" + json.dumps(good).encode() + b"\n")
    assert [each.step for each in read_steps(tmp_path)] == [3]
    (tmp_path / TRAINER_STEPS).unlink()
    os.mkfifo(tmp_path / TRAINER_STEPS)
    assert read_steps(tmp_path) == []
