"""Whole groups for veRL's V1 trainer, without veRL."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.export import NotTrainable, Refusal, RefusalReason
from rollouthub.trainers.verl.outputs import Output
from rollouthub.trainers.verl.whole_groups import ANY, GroupRules, group_rules, no_groups, whole_group


def players(*members: str) -> tuple[Callable[[], Awaitable[list[Output]]], list[str]]:
    """Plays one member after another: "broken", "never" (ends when it is cancelled), or what it is called. What was
    broken off stands in the list."""
    waiting, cancelled = iter(members), list[str]()

    async def play() -> list[Output]:
        name = next(waiting)
        if name == "broken":
            raise NotTrainable(RefusalReason(Refusal.UNSCORED, "it broke"))
        if name == "never":
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(name)
        return [{"name": name}]

    return play, cancelled


async def names(*members: str, size: int, rules: GroupRules) -> list[str]:
    play, _ = players(*members)
    return [output["name"] for (output,) in await whole_group(play, size, rules)]


async def test_a_group_is_whole_or_none() -> None:
    assert await names("a", "b", "c", size=3, rules=GroupRules()) == ["a", "b", "c"]
    with pytest.raises(SupplyError, match="of 3 samples 2 may be learnt from, and a group needs 3"):
        await names("a", "broken", "c", size=3, rules=GroupRules())


async def test_redundant_members_stand_in_for_broken_ones_and_stragglers_are_broken_off() -> None:
    play, cancelled = players("never", "a", "broken", "b")
    with anyio.fail_after(5):
        group = await whole_group(play, 2, GroupRules(redundancy=2))
    assert group == [[{"name": "a"}], [{"name": "b"}]]
    assert cancelled == ["never"]


async def test_fewer_members_do_where_the_rules_say_so() -> None:
    assert await names("a", "broken", "c", size=3, rules=GroupRules(min_group=2)) == ["a", "c"]
    assert await names("broken", "b", size=2, rules=ANY) == ["b"]
    with pytest.raises(SupplyError):
        await names("broken", "broken", size=2, rules=ANY)


async def test_what_ends_the_run_fails_the_group_as_it_is() -> None:
    async def play() -> list[Output]:
        raise SupplyError("the run has ended")

    with pytest.raises(SupplyError, match="the run has ended"):
        await whole_group(play, 4, GroupRules(redundancy=1))


@pytest.mark.parametrize("given", [{"redundancy": -1}, {"min_group": 0}, {"most": 2}])
def test_rules_that_do_not_hold_are_named(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(given))):
        group_rules(given)


def test_rules_are_refused_where_samples_are_asked_for_one_by_one() -> None:
    no_groups(None)
    with pytest.raises(ConfigError, match="HubAgentLoopManagerTQ"):
        no_groups({"redundancy": 1})
