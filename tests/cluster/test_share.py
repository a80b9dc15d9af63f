"""Limits of a minute among workers: together they keep them, as workers come and go."""

import anyio
import pytest

from rollouthub.cluster.worker_share import check_shares, most_sharing
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.models.router.gate import RateLimiter


def request(**settings: object) -> RunRequest:
    """Sums, with limits."""
    return RunRequest.model_validate({"environments": ("arithmetic",), "model": "mock/solver", **settings})


def test_a_gate_keeps_to_its_share_and_to_the_whole_again() -> None:
    gate = RateLimiter(99, 6, None, lambda: 0.0)
    gate.share(3)
    assert [gate.try_enter(0) is not None for _ in range(3)] == [True, True, False]
    gate.share(1)
    assert [gate.try_enter(0) is not None for _ in range(5)] == [True, True, True, True, False]


async def test_who_waits_with_more_tokens_than_a_share_that_shrank_gets_the_minute_to_itself() -> None:
    now = [0.0]
    gate = RateLimiter(99, None, 100, lambda: now[0])
    gate.share(4)
    with anyio.fail_after(5):
        await gate.enter(80)
    assert gate.try_enter(1) is None
    now[0] = 60.0
    assert gate.try_enter(1) is not None


def test_limits_go_round_among_so_many_workers_and_no_more() -> None:
    plan = make_plan(request(requests_per_minute=7, tokens_per_minute=100, sampling={"max_tokens": 30}))
    assert most_sharing(plan) == 3
    check_shares(plan, 3)
    with pytest.raises(ConfigError, match="tokens_per_minute = 100 leaves each of 4 workers 25, and one answer may"):
        check_shares(plan, 4)
    assert most_sharing(make_plan(request())) is None
