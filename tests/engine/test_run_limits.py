"""A run ends at its limits of money, tokens and time, warns before that, and counts each record once."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Outcome, Rollout
from rollouthub.engine.cost_limits import check_run_cost
from rollouthub.engine.plan import make_plan
from rollouthub.engine.pool_options import RunLimits
from rollouthub.engine.resumption import used_so_far
from rollouthub.engine.run import play_run
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError
from rollouthub.messages import assistant
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import AgentRef, EnvironmentRef, Stop, TaskRef, Turn, Usage
from rollouthub.score import ModelCall, Score
from rollouthub.store import open_run


def record(
    number: int = 0, attempt: int = 0, *, cost: float | None = 1.0, judged: Sequence[ModelCall] = (), **more: Any
) -> Rollout:
    """A rollout of 10 tokens."""
    turn = Turn(index=0, messages=(), response=assistant("."), usage=Usage(prompt_tokens=7, output_tokens=3), cost=cost)
    return Rollout(
        run_id="run",
        rollout_id=f"rollout-{number}",
        group_id="group",
        attempt=attempt,
        environment=EnvironmentRef(name="e", version="1", digest="d"),
        task=TaskRef(split="test", id="t", digest="d"),
        agent=AgentRef(name="a", version="1"),
        outcome=Outcome.SCORED,
        stop=Stop.FINISHED,
        score=Score(reward=1.0, judge_calls=tuple(judged)),
        turns=(turn,),
        **more,
    )


def call(role: str) -> ModelCall:
    return ModelCall(role=role, model="m", messages=(), response=None, prompt_tokens=100, output_tokens=50, cost=0.5)


class Cut:
    """Counts how often what is in flight was to be cut short."""

    count = 0

    def __call__(self) -> None:
        self.count += 1


def bounds(stop: StopSignal, cut: Cut | None = None, **limits: Any) -> RunBounds:
    return RunBounds(RunLimits(**limits), stop, cut or Cut())


async def test_all_models_of_a_run_count() -> None:
    stop = StopSignal()
    bound = bounds(stop, max_cost=100)
    bound.came_in(record(judged=[call("judge")], role_calls=(call("user"), call("user"))))
    assert (bound.used.cost, bound.used.tokens) == (2.5, 10 + 3 * 150)
    assert not stop.is_set


async def test_a_record_that_comes_twice_counts_once() -> None:
    bound = bounds(StopSignal(), max_cost=100)
    for _ in range(2):
        bound.came_in(record(1))
    bound.came_in(record(1, attempt=1))
    bound.committed([record(1)])
    assert bound.used.cost == 2.0


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"max_cost": 3}, r"limit of \$3 is reached \(\$3 used\); --resume with a higher --run-cost goes on"),
        ({"max_tokens": 25}, r"limit of 25 tokens is reached \(30 tokens used\); .* higher --run-tokens goes on"),
    ],
)
async def test_the_run_stops_at_a_limit_and_says_what_to_do(limits: dict[str, float], says: str) -> None:
    stop, cut = StopSignal(), Cut()
    bound = bounds(stop, cut, **limits)
    async with bound.kept():
        for number in range(3):
            assert not stop.is_set
            bound.came_in(record(number))
    assert stop.reason is not None
    assert re.search(says, stop.reason)
    assert cut.count == 0, "what is in flight finishes"


async def test_in_flight_episodes_are_cut_short_once_where_asked() -> None:
    stop, cut = StopSignal(), Cut()
    bound = bounds(stop, cut, max_cost=1, ending="cancel")
    for number in range(3):
        bound.came_in(record(number))
    assert (stop.is_set, cut.count) == (True, 1)


async def test_warnings_come_at_80_and_95_percent_once_each(caplog: pytest.LogCaptureFixture) -> None:
    bound = bounds(StopSignal(), max_cost=100)
    with caplog.at_level(logging.WARNING):
        for number in range(99):
            bound.came_in(record(number))
    assert [entry.getMessage() for entry in caplog.records] == [
        "80 % of the run's limit of $100 is used up",
        "95 % of the run's limit of $100 is used up",
    ]


async def test_time_warns_and_stops_by_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    stop = StopSignal()
    with anyio.fail_after(5), caplog.at_level(logging.WARNING):
        async with bounds(stop, max_seconds=0.05).kept():
            await stop.wait()
    assert stop.reason == "the run's limit of 0.05 s is reached; --resume goes on, for as long again"
    assert len(caplog.records) == 2


async def test_a_run_that_is_over_is_not_stopped_any_more() -> None:
    stop = StopSignal()
    bound = bounds(stop, max_cost=1)
    async with bound.kept():
        pass
    bound.came_in(record())
    assert not stop.is_set


def asked(**more: Any) -> RunRequest:
    values = {"environments": ["arithmetic"], "model": "mock/solver", "concurrency": 4, "set": {"size": 500}, **more}
    return build_request(values, "test")


class Heard:
    """What a run says to those who watch it."""

    reason: str | None = None

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Nothing to note."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Nothing to note."""

    def stopped(self, reason: str) -> None:
        self.reason = reason


async def play(request: RunRequest, directory: Path, *, resume: bool = False) -> Heard:
    heard = Heard()
    with anyio.fail_after(60):
        await play_run(
            make_plan(request),
            directory,
            given="",
            resume=resume,
            credentials=Credentials(),
            observer=heard,
            stop=StopSignal(),
        )
    return heard


async def test_a_limit_is_the_runs_however_often_it_is_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    limits = {"price_prompt": 10.0, "price_output": 10.0, "run_limits": {"max_cost": 0.1}}
    heard = await play(asked(**limits), run)
    assert heard.reason is not None
    assert "$0.1 is reached" in heard.reason
    first = used_so_far(run)
    each = 0.012  # dollars of a rollout, more or less
    assert 0.1 <= first.cost <= 0.1 + 4 * each
    with open_run(run) as reader:
        assert (reader.info.status, reader.info.stopped) == ("interrupted", heard.reason)
        assert reader.outcomes()[Outcome.SCORED] < 50
    again = await play(asked(**limits), run, resume=True)
    assert again.reason is not None
    assert used_so_far(run) == first, "nothing was played: the limit was reached before"
    limits["run_limits"] = {"max_cost": 0.2}
    await play(asked(**limits), run, resume=True)
    assert 0.2 <= used_so_far(run).cost <= 0.2 + 4 * each


async def test_a_run_that_ends_within_its_limit_is_finished(tmp_path: Path) -> None:
    run = tmp_path / "run"
    heard = await play(asked(limit=3, concurrency=1, run_limits={"max_tokens": 1500}), run)
    assert heard.reason is None, "the last rollout reached it, and nothing was left"
    with open_run(run) as reader:
        assert (reader.info.status, reader.info.stopped) == ("finished", None)
        assert reader.outcomes() == {Outcome.SCORED: 3}


async def test_cancelled_episodes_are_recorded_and_tried_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    slow = {"model": "mock/solver?latency=30", "limit": 8}
    with anyio.fail_after(5):
        heard = await play(asked(**slow, run_limits={"max_seconds": 0.2, "ending": "cancel"}), run)
    assert heard.reason is not None
    with open_run(run) as reader:
        assert reader.outcomes() == {Outcome.CANCELLED: 4}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"run_limits": {"max_cost": 1}}, "the price of mock/solver: give --price-prompt"),
        ({"run_limits": {"max_cost": 1}, "model": None}, "cannot be kept without a model that has a price"),
    ],
)
async def test_a_limit_of_cost_needs_prices(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        await play(asked(**settings), tmp_path / "run")


def test_an_ending_without_a_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a limit at which to end"):
        asked(run_limits={"ending": "cancel"})


def test_a_cost_limit_wants_the_price_of_a_seats_fallback_too() -> None:
    elsewhere = {"name": "hosted_vllm/x", "base_url": "http://127.0.0.1:9/v1"}
    player = {"name": "mock/solver", "price_prompt": 1.0, "price_output": 1.0, "fallbacks": [elsewhere]}
    asked: dict[str, Any] = {"environments": ("negotiation",), "run_limits": {"max_cost": 1}}
    asked |= {"seats": {"first": {"model": player}, "second": "mock/solver"}}
    with pytest.raises(ConfigError, match="the price of hosted_vllm/x"):
        check_run_cost(make_plan(build_request(asked, "here")), Credentials({}))
    elsewhere |= {"price_prompt": 2.0, "price_output": 2.0}
    check_run_cost(make_plan(build_request(asked, "here")), Credentials({}))
