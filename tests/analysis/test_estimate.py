"""What a sample says of the whole: sums over environments, intervals over tasks, and what decides the time."""

from array import array
from itertools import product
from typing import Any

import pytest

from rollouthub.analysis.estimate import Planned, RunEstimate, estimate_run
from rollouthub.analysis.sample_usage import QUANTITIES, EnvironmentSample, longest_of
from rollouthub.engine.run_request import RunRequest
from rollouthub.store import RoleUsage


def sample(*tasks: float, roles: dict[str, RoleUsage] | None = None) -> EnvironmentSample:
    """Every task one rollout, which takes so many seconds, tokens of each kind, calls and dollars."""
    found = EnvironmentSample(rollouts=len(tasks), scored=len(tasks), roles=roles or {}, seconds=array("d", tasks))
    for quantity, task in product(QUANTITIES, tasks):
        found.means[quantity].add(task, 1)
    return found


def estimated(*parts: tuple[EnvironmentSample, Planned], **request: Any) -> RunEstimate:
    names = [f"e{place}" for place in range(len(parts))]
    samples = {name: part for name, (part, _) in zip(names, parts, strict=True)}
    planned = {name: plan for name, (_, plan) in zip(names, parts, strict=True)}
    return estimate_run(samples, planned, RunRequest.model_validate(request), 1000.0)


def test_environments_weigh_by_what_is_planned_of_them() -> None:
    found = estimated((sample(1, 1, 1, 1, 1), Planned(10, 20)), (sample(5, 5, 5, 5, 5), Planned(3, 3)))
    assert (found.rollouts, found.sampled, found.output_tokens.value) == (23, 10, 20 + 15)
    assert (found.output_tokens.low, found.output_tokens.high) == (35, 35), "tasks that are all alike leave no doubt"
    assert found.disk_bytes == 23_000


def test_an_interval_narrows_with_the_sample_and_never_below_the_spread_of_what_is_planned() -> None:
    def width(count: int) -> float:
        found = estimated((sample(*[1.0, 3.0] * count), Planned(100, 100))).output_tokens
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value == 200 < found.high
        return found.high - found.low

    assert width(2) > width(8) > width(200) > 2 * 1.96 * 100**0.5 * 0.99


def test_the_longest_of_a_draw_is_told_from_the_sample() -> None:
    durations = array("d", [1.0, 2.0])
    assert longest_of(durations, 1) == 1.5
    assert longest_of(durations, 2) == pytest.approx(1.75)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    assert longest_of(durations, 1000) == pytest.approx(2.0)  # pyright: ignore[reportUnknownMemberType]  # untyped there


@pytest.mark.parametrize(
    ("request_", "bound", "seconds"),
    [
        ({"concurrency": 10}, "concurrency", 200.0),
        ({"concurrency": 5000}, "concurrency", 2.0),
        ({"concurrency": 1000, "requests_per_minute": 500}, "requests_per_minute", 60 * (2000 / 500 - 1)),
        ({"concurrency": 1000, "tokens_per_minute": 1000}, "tokens_per_minute", 60 * (4000 / 1000 - 1)),
    ],
)
def test_what_is_slowest_decides_the_time(request_: dict[str, Any], bound: str, seconds: float) -> None:
    found = estimated((sample(*[2.0] * 5), Planned(1000, 1000)), **request_)
    assert (found.bound, found.seconds.value) == (bound, seconds)


def test_instant_models_leave_the_hubs_own_work() -> None:
    found = estimated((sample(*[0.001] * 5), Planned(1000, 1000)))
    assert (found.bound, found.seconds.value) == ("cpu", 1.0)


def test_judges_count_towards_limits_of_the_run_and_not_towards_the_models_budget() -> None:
    judge = {"judge": RoleUsage(calls=5, prompt_tokens=40, output_tokens=10, cost=2.5)}
    limits = {"budget": 100, "run_limits": {"max_cost": 100, "max_tokens": 1000}}
    found = estimated((sample(*[1.0] * 5, roles=judge), Planned(100, 100)), **limits)
    assert found.roles == {"judge": RoleUsage(100, 800, 200, 50.0)}
    shares = {name: limit.share.value for name, limit in found.limits.items()}
    # Of the 100 dollars of all rollouts 50 are the judge's.
    assert shares == {"run_limits.max_cost": 1.0, "budget": 0.5, "run_limits.max_tokens": (200 + 1000) / 1000}


def test_a_judge_of_unknown_price_is_named() -> None:
    judge = {"judge": RoleUsage(calls=5, prompt_tokens=40, output_tokens=10)}
    found = estimated((sample(*[1.0] * 5, roles=judge), Planned(100, 100)))
    assert any("asked as judge is not known" in remark for remark in found.remarks)
