"""`negotiation`: who gets what, and how near a deal is to the Pareto frontier."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Score, Submission, Task
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import assistant
from rollouthub_servers.negotiation import Negotiation, NegotiationConfig, NegotiationSecret
from rollouthub_servers.negotiation.division import Market

GOODS = {"books": 2, "hats": 1}
VALUES = {"first": {"books": 5, "hats": 0}, "second": {"books": 1, "hats": 8}}


class Known(Negotiation):
    """Goods and values of which a test knows what is best."""

    @classmethod
    def tasks(cls, config: NegotiationConfig, split: str, seed: int) -> Any:
        (task, *_) = Negotiation.tasks(config, split, seed)
        yield Task(task.public, NegotiationSecret(goods=GOODS, values=VALUES))


@asynccontextmanager
async def table(**settings: Any) -> AsyncGenerator[HostedEpisode]:
    host = InProcessHost("negotiation", Known, NegotiationConfig(size=1, **settings))
    card = next(host.cards("test", 0))
    assert not isinstance(card, BadRow)
    with anyio.fail_after(20):
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            assert isinstance(episode, HostedEpisode)
            yield episode


async def told(episode: HostedEpisode, seat: str, name: str, **arguments: Any) -> str:
    result = await episode.seats[seat].call_tool(name, arguments)
    return result.model_dump()["content"][0]["text"]


async def deal(keep: dict[str, int]) -> Score:
    """The verdict on a division that the first seat proposes and the second accepts."""
    async with table() as episode:
        async with anyio.create_task_group() as seats:
            seats.start_soon(lambda: told(episode, "first", "propose", keep=keep))
            await episode.reply("second", ())
            await told(episode, "second", "accept")
        assert episode.is_sealed
        return await episode.verify(Submission())


@pytest.mark.parametrize(
    ("keep", "reward", "shares"),
    [
        ({"books": 2}, 1.0, (1.0, 0.8)),
        ({"books": 2, "hats": 1}, 1.0 / 1.8, (1.0, 0.0)),
        ({}, 1.0, (0.0, 1.0)),
        # One of them could have had more, and the other no less.
        ({"hats": 1}, 0.2 / 1.8, (0.0, 0.2)),
        ({"books": 1, "hats": 1}, 0.6 / 1.8, (0.5, 0.1)),
    ],
)
async def test_a_deal_is_worth_how_near_it_is_to_the_frontier(
    keep: dict[str, int], reward: float, shares: tuple[float, float]
) -> None:
    score = await deal(keep)
    assert score.reward == pytest.approx(reward)
    assert score.passed == (reward == 1.0)
    assert (score.seat_rewards["first"], score.seat_rewards["second"]) == pytest.approx(shares)


async def test_without_a_deal_nobody_gets_anything() -> None:
    async with table(rounds=1) as episode:
        async with anyio.create_task_group() as seats:
            seats.start_soon(lambda: told(episode, "first", "propose", keep={"books": 2}))
            await episode.reply("second", ())
            assert "no deal" in await told(episode, "second", "reject")
        score = await episode.verify(Submission())
    assert (score.reward, score.seat_rewards) == (0.0, {"first": 0.0, "second": 0.0})


async def test_each_hears_what_the_other_proposes_and_nothing_of_its_values() -> None:
    async with table() as episode:
        heard: list[Any] = []
        async with anyio.create_task_group() as seats:

            async def first() -> None:
                heard.append(await told(episode, "first", "propose", keep={"books": 2}, message="I read."))

            seats.start_soon(first)
            news = await episode.reply("second", ())
            assert news is not None
            said = 'The other proposes to keep 2 books, 0 hats; you would get 0 books, 1 hats. It says: "I read."'
            assert [message.text for message in news] == [said]
            episode.environment.left("second")
        assert heard == ["The other has left: there is no deal."]
        assert "hats: 8" in episode.seats["second"].messages[0].text
        assert "hats: 8" not in "".join(message.text for message in episode.seats["first"].messages)


async def test_what_is_no_proposal_and_who_has_no_turn_is_told_so() -> None:
    async with table() as episode:
        assert "there are no 'cars'" in await told(episode, "first", "propose", keep={"cars": 1})
        assert "nobody can keep 3" in await told(episode, "first", "propose", keep={"books": 3})
        assert "nobody can keep -1" in await told(episode, "first", "propose", keep={"books": -1})
        assert "at most 2000" in await told(episode, "first", "propose", keep={}, message="x" * 2001)
        assert "no proposal" in await told(episode, "first", "accept")
        assert "not your turn" in await told(episode, "second", "accept")


async def test_who_only_talks_has_left_after_a_while() -> None:
    async with table() as episode:
        for _ in range(2):
            hint = await episode.reply("first", (assistant("Hm."),))
            assert hint is not None
            assert "call `propose`" in hint[0].text
        assert await episode.reply("first", (assistant("Hm."),)) is None
        assert await episode.reply("second", ()) is None


async def test_a_snapshot_goes_on_where_it_was_taken() -> None:
    state: Any = None
    async with table() as episode, anyio.create_task_group() as seats:
        seats.start_soon(lambda: told(episode, "first", "propose", keep={"books": 2}))
        await episode.reply("second", ())
        state = await episode.snapshot()
        await episode.seal()
    async with table() as again:
        await again.environment.restore(state)
        assert "It is a deal" in await told(again, "second", "accept")
        assert (await again.verify(Submission())).reward == 1.0


def test_the_fairest_division_is_on_the_frontier() -> None:
    for seed in range(50):
        (task,) = Negotiation.tasks(NegotiationConfig(size=1), "test", seed)
        assert isinstance(task.secret, NegotiationSecret)
        market = Market(task.secret.goods, task.secret.values)
        assert market.nearness(market.fairest()) == 1.0
