"""Which server takes a call: the least busy, in turn, unless one knows the conversation."""

from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.replica import ModelReplica
from rollouthub.models.router.replicas import MAX_SESSIONS, Replicas
from tests.models.router.lanes import Lane


def servers(count: int) -> Replicas:
    return Replicas([(Lane(), f"s{number}") for number in range(count)], CircuitBreakerSettings(), lambda: 0.0)


def take(replicas: Replicas, session: str = "", answers: bool = False) -> ModelReplica:
    """Send a call; it stays in flight unless it is answered."""
    replica = replicas.pick(session)
    assert replica is not None
    replica.begin()
    if answers:
        replica.end_answered(0.1)
        replicas.remember(session, replica)
    return replica


def test_calls_go_to_the_least_busy_server() -> None:
    replicas = servers(3)
    for _ in range(30):
        take(replicas)
    assert [replica.in_flight for replica in replicas.all] == [10, 10, 10]
    replicas.all[1].end_answered(0.1)
    assert take(replicas) is replicas.all[1]


def test_equally_busy_servers_take_turns() -> None:
    replicas = servers(3)
    assert {take(replicas, answers=True).place for _ in range(3)} == {"s0", "s1", "s2"}


def test_a_session_stays_where_it_was_answered() -> None:
    replicas = servers(4)
    homes = {f"r{number}": take(replicas, f"r{number}", answers=True) for number in range(8)}
    for session, home in homes.items():
        assert take(replicas, session, answers=True) is home


def test_a_session_leaves_a_server_that_is_clearly_busier() -> None:
    replicas = servers(2)
    home = take(replicas, "r", answers=True)
    (other,) = [replica for replica in replicas.all if replica is not home]
    for _ in range(3):
        other.begin()
    for _ in range(14):
        home.begin()
    assert replicas.pick("r") is home
    home.begin()
    assert replicas.pick("r") is other


def test_a_session_leaves_a_server_that_is_out_and_stays_where_it_went() -> None:
    replicas = servers(2)
    home = take(replicas, "r", answers=True)
    home.health = "down"
    other = take(replicas, "r", answers=True)
    assert other is not home
    home.health = "up"
    assert take(replicas, "r") is other


def test_the_oldest_sessions_are_forgotten() -> None:
    replicas = servers(2)
    home = take(replicas, "first", answers=True)
    for number in range(MAX_SESSIONS):
        replicas.remember(f"r{number}", home)
    assert {take(replicas, "first", answers=False) for _ in range(2)} == set(replicas.all)


def test_a_server_that_asked_for_a_pause_is_avoided_but_not_out() -> None:
    replicas = servers(2)
    resting, other = replicas.all
    resting.rest_until = 1.0
    for _ in range(20):
        assert take(replicas) is other
    other.health = "down"
    assert take(replicas) is resting


def test_those_that_have_failed_a_call_are_left_out() -> None:
    replicas = servers(2)
    first, second = replicas.all
    assert replicas.pick("", [first]) is second
    assert replicas.pick("", [first, second]) is None
    assert not replicas.is_any_open([first, second])
