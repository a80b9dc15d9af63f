"""`hub estimate`: projections from a sample that is played, kept, or taken from a run."""

from collections.abc import Generator
from pathlib import Path

import pytest

from .inside import Inside, hub_inside, options_of

PLANNED = ("arithmetic", "-m", "mock/solver", "--set", "size=900", "--limit", "200", "--repeats", "2")
EXAMPLE = Path(__file__).parents[2] / "examples" / "dice.py"
PRICES = ("--price-prompt", "10", "--price-output", "10")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Inside]:
    """The command line, inside this process."""
    with hub_inside(tmp_path, monkeypatch) as call:
        yield call


def test_everything_a_run_takes_can_be_estimated() -> None:
    assert set(options_of("run")) - {"--resume"} <= set(options_of("estimate"))


def test_an_estimate_comes_close_to_the_run(hub: Inside, tmp_path: Path) -> None:
    limits = ("--run-cost", "1", "--budget", "20")
    guess = hub("estimate", *PLANNED, *PRICES, *limits, "--json", "-q").json
    assert (guess["rollouts"], guess["tasks"], guess["sampled"], guess["scored"]) == (400, 200, 8, 8)
    real = hub("run", *PLANNED, *PRICES, "-o", "run", "--json", "-q").json
    for name in ("prompt_tokens", "output_tokens", "cost"):
        low, high = guess[name]["low"], guess[name]["high"]
        assert low * 0.98 <= real[name] <= high * 1.02, name
        assert high - low < 0.2 * real[name]
    assert guess["disk_bytes"] == pytest.approx((tmp_path / "run" / "run.db").stat().st_size, rel=0.3)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    share = guess["limits"]["run_limits.max_cost"]["share"]["value"]
    assert share > 1
    assert guess["limits"]["budget"]["share"]["value"] == pytest.approx(share / 20)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    assert not (tmp_path / "runs").exists()


def test_a_kept_sample_is_the_beginning_of_the_run(hub: Inside) -> None:
    done = hub("estimate", "arithmetic", "-m", "mock/solver", "--limit", "20", "--sample", "3", "-o", "run")
    assert done.code == 0
    assert "20 rollouts of 20 tasks are planned. The sample: 3 of 3 tasks, 3 scored" in done.out
    assert "hub run --resume -o run" in done.out
    resumed = hub("run", "--resume", "-o", "run", "--json")
    assert "resuming: 3 of 20 rollouts are done" in resumed.err
    assert resumed.json["scored"] == 20


def test_a_run_is_projected_without_playing(hub: Inside) -> None:
    hub("run", "arithmetic", "-m", "mock/solver", "--limit", "20", "-o", "runs/small")
    guess = hub("estimate", "--from", "small", "--limit", "50", "--repeats", "4", *PRICES, "--rpm", "10", "--json").json
    assert (guess["rollouts"], guess["sampled"]) == (200, 20)
    tokens = guess["prompt_tokens"]["value"] + guess["output_tokens"]["value"]
    assert guess["cost"]["value"] == pytest.approx(tokens * 10 / 1e6)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    assert guess["bound"] == "requests_per_minute"
    assert guess["seconds"]["value"] == pytest.approx(60 * (400 / 10 - 1))  # pyright: ignore[reportUnknownMemberType]  # untyped there
    assert "has no rollouts of customer_service" in hub("estimate", "customer_service", "--from", "small").refused()
    assert "nothing to keep in -o" in hub("estimate", "--from", "small", "-o", "x").refused()


def test_a_file_that_a_run_names_is_not_imported(hub: Inside, tmp_path: Path) -> None:
    imported = tmp_path / "imported"
    (tmp_path / "mine.py").write_text(
        EXAMPLE.read_text() + f"\n__import__('pathlib').Path({str(imported)!r}).touch()\n"
    )
    assert hub("run", "mine.py", "-m", "mock/solver", "--limit", "2", "-o", "runs/of_a_file").code in (0, 1)
    imported.unlink()
    refused = hub("estimate", "--from", "of_a_file").refused()
    assert "which would be imported or asked; name it yourself" in " ".join(refused.split())
    assert not imported.exists()
    assert hub("estimate", "mine.py", "--from", "of_a_file", "--json").code in (0, 1)
    assert imported.exists()


def test_a_sample_of_which_nothing_is_scored_projects_nothing(hub: Inside) -> None:
    done = hub("estimate", "arithmetic", "-m", "mock/solver?fail=1", "--limit", "2", "--retries", "0")
    assert done.code == 1
    assert "nothing of arithmetic was scored" in done.out
    assert "simulated failure" in done.out
    assert "the run" not in done.out


def test_one_task_gives_no_interval_and_says_so(hub: Inside) -> None:
    done = hub("estimate", "arithmetic", "-m", "mock/solver", "--limit", "9", "--sample", "1", "--json")
    assert done.json["output_tokens"]["low"] is None
    assert "1 tasks of arithmetic are few: a larger --sample says more" in done.json["remarks"]
    assert any("the cost is not known" in remark for remark in done.json["remarks"])


WORLD = str(Path(__file__).parents[1] / "engine" / "picture_world.py")
SEEING = "hosted_vllm/Qwen2.5-VL-3B"
SENT = 1 + 2
"""Pictures in the prompts of one rollout: the task's in the first, and the user's beside it in the second."""
SMALLEST = 6
"""Tokens of a picture of one pixel, which Qwen2.5-VL scales up to two patches by two, and two marks."""


def test_pictures_count_by_the_planned_models_rule_whoever_played_the_sample(hub: Inside) -> None:
    hub("run", WORLD, "-m", "mock/say", "-o", "runs/shown")
    asked = ("estimate", WORLD, "--from", "shown", "--repeats", "10", *PRICES, "--run-tokens", "1000")
    words = hub(*asked, "-m", "mock/say", "--json").json
    assert (words["picture_tokens"], words["rollouts"]) == (0, 10)
    guess = hub(*asked, "-m", SEEING, "--json").json
    assert guess["picture_tokens"] == 10 * SENT * SMALLEST
    assert guess["prompt_tokens"]["value"] == words["prompt_tokens"]["value"] + 10 * SENT * SMALLEST
    tokens = guess["prompt_tokens"]["value"] + guess["output_tokens"]["value"]
    assert guess["cost"]["value"] == pytest.approx(tokens * 10 / 1e6)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    share = guess["limits"]["run_limits.max_tokens"]["share"]["value"]
    assert share == pytest.approx(tokens / 1000)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    assert any(f"did not count pictures as {SEEING} does" in remark for remark in guess["remarks"])
    other = hub(*asked, "-m", "hosted_vllm/another", "--json").json
    assert other["picture_tokens"] == 10 * SENT * 2048
    assert any("3 of 3 pictures and sounds sent are guessed as 2,048 tokens" in remark for remark in other["remarks"])
    assert "of pictures" in hub(*asked, "-m", SEEING).out
