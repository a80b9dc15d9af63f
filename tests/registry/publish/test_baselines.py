"""Baselines: a finished run of just this release, by one model, with a score for every rollout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome, Rollout, Score
from rollouthub.errors import RunDirectoryError
from rollouthub.rollout import EnvironmentRef
from rollouthub.store import open_writer
from rollouthub_registry.names import Release
from rollouthub_registry.publish.baselines import read_baselines
from rollouthub_registry.publish.publish_error import PublishRefused
from tests.store.records import record

RELEASE = Release.parse("lab/words@1.0.0")
WORDS = {"name": "lab/words", "version": "1.0.0"}
FAILED = record("g9-0", outcome=Outcome.MODEL_FAILED)


def scored(number: int, reward: float, **more: Any) -> Rollout:
    ref = EnvironmentRef(**WORDS, digest="sha256:0")
    return record(f"g{number}-0", environment=ref, score=Score(reward=reward), **more)


async def run(
    folder: Path, records: Sequence[Rollout], environments: Sequence[dict[str, str]] = (WORDS,), **request: Any
) -> Path:
    resolved: dict[str, Any] = {"request": {"model": "mock/solver", **request}, "environments": [*environments]}
    async with open_writer(folder, resolved=resolved, given="", resume=False) as writer:
        for rollout in records:
            await writer.add(rollout)
    return folder


async def test_a_run_tells_model_mean_and_samples_and_the_strongest_is_first(tmp_path: Path) -> None:
    weak = await run(tmp_path / "weak", [scored(1, 0.0)], model="hosted_vllm/base")
    strong = await run(tmp_path / "strong", [scored(1, 0.25), scored(2, 1.0)])
    first, second = read_baselines([weak, strong, weak], RELEASE)
    assert (first.model, first.mean_reward, first.samples) == ("mock/solver", 0.625, 2)
    assert (second.model, second.mean_reward, second.samples) == ("hosted_vllm/base", 0.0, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"environments": [{**WORDS, "version": "0.9.0"}]}, r"it played lab/words@0\.9\.0, and what is published is"),
        ({"environments": [{**WORDS, "name": "lab/other"}]}, "it played lab/other@1"),
        ({"environments": [WORDS, {**WORDS, "name": "lab/other"}]}, "it played 2 environments"),
        ({"model": None}, "no model played it"),
        ({"records": [scored(1, 1.0), FAILED]}, r"1 of 2 rollouts have no score \(1 model_failed\)"),
        ({"records": []}, "nothing was played"),
    ],
)
async def test_a_run_that_says_something_else_is_refused(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    given: dict[str, Any] = {"records": [scored(1, 1.0)], **change}
    folder = await run(tmp_path / "run", **given)
    with pytest.raises(PublishRefused, match=why):
        read_baselines([folder], RELEASE)


async def test_a_run_of_one_of_the_hubs_own_is_of_its_package(tmp_path: Path) -> None:
    folder = await run(tmp_path / "run", [scored(1, 1.0)], [{"name": "arithmetic", "version": "0.1.0"}])
    assert read_baselines([folder], Release.parse("rollouthub/arithmetic@0.1.0"))[0].samples == 1
    with pytest.raises(PublishRefused, match=r"it played arithmetic@0\.1\.0"):
        read_baselines([folder], Release.parse("lab/arithmetic@0.1.0"))


async def test_a_run_that_another_model_helped_with_is_refused(tmp_path: Path) -> None:
    turns = tuple(turn.model_copy(update={"model": "mock/other"}) for turn in scored(1, 1.0).turns)
    folder = await run(tmp_path / "run", [scored(1, 1.0, turns=turns)], fallbacks=["mock/other"])
    with pytest.raises(PublishRefused, match="several models"):
        read_baselines([folder], RELEASE)


async def test_a_run_under_way_is_refused(tmp_path: Path) -> None:
    resolved: dict[str, Any] = {"environments": [WORDS]}
    async with open_writer(tmp_path, resolved=resolved, given="", resume=False) as writer:
        await writer.add(scored(1, 1.0))
        with pytest.raises(PublishRefused, match="not finished"):
            read_baselines([tmp_path], RELEASE)


async def test_a_checkpoint_is_named_without_the_folders_it_lies_in(tmp_path: Path) -> None:
    folder = await run(tmp_path / "run", [scored(1, 1.0)], model="hosted_vllm//home/me/checkpoints/step-40")
    assert read_baselines([folder], RELEASE)[0].model == "hosted_vllm/step-40"


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError):
        read_baselines([tmp_path], RELEASE)
