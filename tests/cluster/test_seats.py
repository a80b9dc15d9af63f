"""Two models at two seats: the same record in this process, from a served environment, and on a cluster."""

from typing import Any

from rollouthub import Rollout

from .conftest import Play

SEATS = {"first": "mock/say?text=Ada", "second": "mock/solver?tool=quote"}
CLOCKS = {"started", "seconds", "timings", "started_at", "isolation", "run_id", "latency", "first_token_seconds"}


def without_clocks(value: Any) -> Any:
    """A record without what differs from one playing to the next."""
    if isinstance(value, dict):
        return {key: without_clocks(inner) for key, inner in value.items() if key not in CLOCKS}  # pyright: ignore[reportUnknownVariableType]
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def plain(rollouts: list[Rollout]) -> Any:
    return without_clocks(
        sorted((each.model_dump(mode="json") for each in rollouts), key=lambda each: each["group_id"])
    )


async def test_two_models_at_two_seats_leave_the_same_record_everywhere(play: Play) -> None:
    settings: dict[str, Any] = {
        "environments": ("debate",),
        "set": {"judge": "quotes", "size": 3},
        "seats": SEATS,
        "seed": 3,
    }
    hosted = (await play(**settings, pool="local")).records()
    assert len(hosted) == 3
    assert all([turn.agent for turn in each.turns][:1] == ["first"] for each in hosted)
    assert {seat: player.model for seat, player in hosted[0].seats.items()} == SEATS
    others: list[dict[str, Any]] = [{"pool": "local", "served": True}, {}, {"served": True}]
    for elsewhere in others:
        assert plain((await play(**settings, **elsewhere)).records()) == plain(hosted), elsewhere


async def test_a_cluster_draws_the_same_opponents_from_a_pool(play: Play) -> None:
    pool = [{"model": "mock/say?text=Ada", "version": 1}, {"model": "mock/say?text=Bob", "version": 2}]
    settings: dict[str, Any] = {
        "environments": ("debate",),
        "model": "mock/say?text=Eve",
        "set": {"judge": "quotes", "size": 6},
        "seats": {"second": {"pool": pool}},
        "seed": 3,
    }
    hosted = (await play(**settings, pool="local")).records()
    assert {each.seats["second"].version for each in hosted} == {1, 2}
    assert plain((await play(**settings)).records()) == plain(hosted)
