"""How a server is said to stand: up, held off for a moment, or without calls, and why."""

import pytest

from rollouthub import ModelError
from rollouthub.models.latency import spread
from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.replica import ModelReplica
from tests.models.router.lanes import Lane

BROKEN = ModelError("HTTP 500", status=500)


class Clock:
    """The time, as it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replica(clock: Clock) -> ModelReplica:
    return ModelReplica(Lane(), "http://s/v1", CircuitBreakerSettings(), clock, lambda: None, most_calls=8)


def stands(replica: ModelReplica) -> tuple[str, str | None]:
    status = replica.status("m")
    return status.standing, status.reason


def test_a_fresh_server_is_up_and_has_no_latency(replica: ModelReplica) -> None:
    status = replica.status("m")
    assert (status.standing, status.reason, status.latency_seconds, status.latency_p95_seconds) == (
        "up",
        None,
        None,
        None,
    )


def test_a_server_that_fails_again_and_again_is_open_then_on_trial_then_up(replica: ModelReplica, clock: Clock) -> None:
    for _ in range(CircuitBreakerSettings().failures):
        replica.end_failed(replica.begin(), BROKEN)
    clock.now = 0.25
    assert stands(replica) == ("open", "looked at again in 0.8 s: HTTP 500")
    assert replica.status("m").errors == CircuitBreakerSettings().failures
    replica.put_on_trial()
    assert stands(replica) == ("cooling", "on trial after an outage: HTTP 500")
    replica.begin()
    replica.end_answered(0.1)
    assert replica.status("m").standing == "up"


def test_a_server_that_asked_for_a_pause_is_paused_until_that_is_over(replica: ModelReplica, clock: Clock) -> None:
    replica.end_failed(replica.begin(), ModelError("HTTP 429", status=429, retry_after_seconds=2.0))
    assert stands(replica) == ("cooling", "it asked for a pause, of 2.0 s more")
    assert replica.status("m").errors == 0
    clock.now = 2.5
    assert stands(replica) == ("up", None)


def test_a_server_that_refuses_all_is_held_off(replica: ModelReplica) -> None:
    for _ in range(8):
        replica.begin()
    for _ in range(8):
        replica.end_failed(0, ModelError("HTTP 429", status=429))
    standing, reason = stands(replica)
    assert standing == "cooling"
    assert (reason or "").startswith("it refuses calls; held off for ")


def test_a_server_that_gets_fewer_calls_is_up_and_says_why(replica: ModelReplica, clock: Clock) -> None:
    replica.limiter.quota_left(clock.now, 3, 10.0)
    assert stands(replica) == ("up", "gets 3 calls at a time, as its quota has it")


def test_latencies_are_those_of_real_answers() -> None:
    assert spread([]) is None
    assert spread([0.3]) == (0.3, 0.3)
    assert spread([float(number) for number in range(100, 0, -1)]) == (50.0, 95.0)
