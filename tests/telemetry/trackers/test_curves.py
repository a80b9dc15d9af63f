"""Curves are means over windows of scored rollouts; unscored is never zero, and kinds are never merged."""

from rollouthub import Outcome, Score, Stop
from rollouthub.rollout import EnvironmentRef, Rollout, Timings
from rollouthub.telemetry.trackers.curves import Before, Curves, window_of
from tests.store.records import record


def scored(number: int, reward: float, environment: str = "arithmetic") -> Rollout:
    """A scored rollout."""
    return record(
        f"g{number}-0",
        score=Score(reward=reward, passed=reward > 0.5),
        environment=EnvironmentRef(name=environment, version="1", digest="sha256:0"),
        started_at=100.0 + number,
    )


def failed(number: int, outcome: Outcome, attempt: int = 0) -> Rollout:
    """A rollout that ended without a score."""
    return record(f"g{number}-0", attempt=attempt, outcome=outcome, started_at=100.0 + number)


def test_a_point_is_the_mean_of_a_window_of_scored_rollouts_by_environment() -> None:
    curves = Curves(20, began_at=100.0)
    points = curves.add([scored(number, number % 2, "a" if number < 5 else "b") for number in range(10)])
    assert [point.step for point in points] == [10]
    values = points[0].values
    assert (values["reward/a"], values["reward/b"]) == (0.4, 0.6)
    assert (values["pass_rate/a"], values["run/mean_reward"], values["run/coverage"]) == (0.4, 0.5, 0.5)
    assert values["seconds/total/p50"] == 3.0
    assert points[0].time == 100.0 + 9 + 3.0
    assert abs(values["speed/rollouts_per_second"] - 10 / 12) < 1e-9


def test_an_environment_without_a_score_has_no_reward_rather_than_zero() -> None:
    curves = Curves(10, began_at=100.0)
    (point,) = curves.add([failed(number, Outcome.MODEL_FAILED) for number in range(10)])
    assert not [name for name in point.values if name.startswith(("reward/", "pass_rate/", "run/mean", "run/pass"))]
    assert point.values["outcomes/infrastructure_fault"] == 10
    assert point.values["outcomes/scored"] == 0


def test_kinds_of_endings_are_never_merged() -> None:
    curves = Curves(4, began_at=100.0)
    ends = (Outcome.AGENT_FAILED, Outcome.VERIFIER_FAILED, Outcome.SANDBOX_FAILED, Outcome.CANCELLED)
    curves.add([failed(number, outcome) for number, outcome in enumerate(ends)])
    kinds = ("agent_failure", "verifier_fault", "infrastructure_fault", "cancelled")
    assert [curves.figures()[f"outcomes/{kind}"] for kind in kinds] == [1, 1, 1, 1]


def test_another_attempt_takes_the_place_of_the_one_that_broke() -> None:
    curves = Curves(2, began_at=100.0)
    curves.add([failed(1, Outcome.MODEL_FAILED), failed(1, Outcome.MODEL_FAILED, attempt=1), scored(1, 1.0)])
    assert curves.step == 1
    figures = curves.figures()
    assert (figures["outcomes/scored"], figures["outcomes/infrastructure_fault"]) == (1, 0)
    assert figures["outcomes/retried"] == 2


def test_steps_do_not_depend_on_how_records_were_committed() -> None:
    rollouts = [scored(number, 1.0) for number in range(35)]
    at_once, one_by_one = Curves(35, 100.0), Curves(35, 100.0)
    single = [point for rollout in rollouts for point in one_by_one.add([rollout])]
    assert at_once.add(rollouts) == single
    assert [point.step for point in single] == [10, 20, 30]
    rest = at_once.rest()
    assert rest is not None
    assert rest.step == 35


def test_a_resumed_run_goes_on_from_what_it_had() -> None:
    before = Before(unscored={"g3-0": Outcome.MODEL_FAILED}, prompt_tokens=7, output_tokens=5, cost=2.0)
    for number in range(3):
        before.means.add(Outcome.SCORED, float(number), None)
    before.means.add(Outcome.MODEL_FAILED)
    curves = Curves(20, 100.0, before)
    assert curves.step == 4
    curves.add([scored(3, 1.0)])
    assert (curves.step, curves.figures()["run/mean_reward"]) == (4, 1.0)
    assert curves.figures()["cost/dollars"] == 3.0


def test_truncated_episodes_are_counted_among_the_scored() -> None:
    curves = Curves(2, 100.0)
    curves.add([scored(1, 1.0), record("g2-0", stop=Stop.TURN_LIMIT), failed(3, Outcome.AGENT_FAILED)])
    rest = curves.rest()
    assert rest is not None
    assert rest.values["episode/truncated"] == 0.5


def test_a_long_run_is_drawn_with_no_more_points_than_a_short_one() -> None:
    assert (window_of(5), window_of(2_000), window_of(1_000_000)) == (10, 10, 5_000)


def test_stages_are_those_of_the_record() -> None:
    curves = Curves(1, 100.0)
    curves.add([record(timings=Timings(queue=1, setup=2, agent=7, model=4, tool=3, verify=5, close=6, total=21))])
    rest = curves.rest()
    assert rest is not None
    found = {name: value for name, value in rest.values.items() if name.endswith("p95")}
    assert list(found.values()) == [1, 2, 7, 4, 3, 5, 6, 21]
