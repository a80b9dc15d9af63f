"""A service opens episodes on demand; the engine plays, records and scores them as those of any run."""

from pathlib import Path

import aiohttp
import anyio
import pytest

from rollouthub import Limits, Outcome, Stop
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.gateway.sessions.service import TooMany
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.served_episodes import Conflict
from rollouthub.store import open_run
from tests.gateway.sessions.front import call, front, rpc


async def test_an_episode_is_opened_played_scored_and_kept(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest())
        ticket = session.ticket()
        assert (ticket.task, ticket.state) == ("test/0", "open")
        assert [tool.name for tool in ticket.tools] == ["add", "wait", "get_task", "submit"]
        assert ticket.agent_url is not None
        for _ in range(2):
            await call(ticket.agent_url, "add")
        await call(ticket.agent_url, "submit", answer="two")
        rollout = await session.over()
        assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.SUBMITTED, 1.0)
        assert (await hub.report(session.id)).score == rollout.score
    with open_run(tmp_path / "run") as reader:
        assert reader.rollout(session.id).reward == 1.0
        assert reader.info.status == "finished"


async def test_tasks_are_dealt_in_order_by_name_and_at_random(tmp_path: Path) -> None:
    async with front(tmp_path / "run", limit=3, seed=5) as hub:

        async def assigned(**request: object) -> str:
            session = await hub.open(EpisodeRequest.model_validate(request))
            return (await session.close()).task.id

        assert [await assigned() for _ in range(4)] == ["test/0", "test/1", "test/2", "test/0"]
        assert await assigned(task="test/7") == "test/7"
        assert {await assigned(pick="random") for _ in range(4)} <= {"test/0", "test/1", "test/2"}
        with pytest.raises(UnknownNameError):
            await hub.open(EpisodeRequest(split="nowhere"))
        with pytest.raises(UnknownNameError):
            await hub.open(EpisodeRequest(environment="chess"))


async def test_samples_of_a_task_share_its_seed_and_have_names_of_their_own(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        sessions = [await hub.open(EpisodeRequest(task="test/0", seed=seed)) for seed in (None, None, 7)]
        first, second, other = [await session.close() for session in sessions]
    assert (first.group_id, first.seed) == (second.group_id, second.seed)
    assert [first.sample, second.sample, other.sample] == [0, 1, 0]
    assert other.group_id != first.group_id
    assert other.seed == 7


async def test_verifying_twice_at_once_gives_one_score(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest())
        await call(session.address.agent_url, "add")
        found: list[object] = []

        async def verify() -> None:
            found.append(await session.verify())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(verify)
        assert found == [found[0]] * 3
    with open_run(tmp_path / "run") as reader:
        assert [(each.reward, each.stop) for each in reader.rollouts(effective=False)] == [(0.5, Stop.FINISHED)]


async def test_after_the_seal_nothing_can_be_reached(tmp_path: Path) -> None:
    async with front(tmp_path / "run", model="mock/say?text=hi") as hub, aiohttp.ClientSession() as http:
        session = await hub.open(EpisodeRequest())
        address = session.address
        await session.seal()
        assert await call(address.agent_url, "add") == CLOSED
        status, _ = await rpc(http, address.agent_url, "tools/list")
        assert status == 404
        async with http.post(f"{address.llm_url}/chat/completions", json={"messages": []}) as response:
            assert response.status == 401
        assert (await session.over()).reward == 0.0


async def test_closing_leaves_no_score(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest())
        rollout = await session.close()
        assert (rollout.outcome, rollout.reward, rollout.faults) == (Outcome.CANCELLED, None, ())
        assert (await hub.report(session.id)).outcome is Outcome.CANCELLED
        assert hub.sessions == ()


async def test_what_nobody_ends_is_closed_at_its_expiry_and_says_so(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest(ttl_seconds=0.5))
        longer = await hub.open(EpisodeRequest())
        rollout = await session.over()
        assert (rollout.outcome, [fault.type for fault in rollout.faults]) == (Outcome.CANCELLED, ["Expired"])
        assert longer.state == "open"
        assert hub.expiry.count == 1


async def test_an_episodes_own_limits_hold_and_impossible_ones_are_refused(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest(limits=Limits(max_turns=1)))
        await call(session.address.agent_url, "add")
        assert "turn_limit" in await call(session.address.agent_url, "add")
        assert (await session.over()).stop is Stop.TURN_LIMIT
        with pytest.raises(ConfigError, match="TTL"):
            await hub.open(EpisodeRequest(limits=Limits(max_seconds=50), ttl_seconds=10))


async def test_only_so_many_are_open_at_once(tmp_path: Path) -> None:
    async with front(tmp_path / "run", rules=ServiceRules(most_open=1)) as hub:
        session = await hub.open(EpisodeRequest())
        with pytest.raises(TooMany):
            await hub.open(EpisodeRequest())
        await session.close()
        await hub.open(EpisodeRequest())


async def test_an_idempotency_key_opens_one_episode(tmp_path: Path) -> None:
    request = EpisodeRequest(idempotency_key="k", task="test/3")
    async with front(tmp_path / "run") as hub:
        sessions: list[object] = []

        async def open_one() -> None:
            sessions.append(await hub.open(request))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(open_one)
        assert sessions == [sessions[0]] * 3
        with pytest.raises(Conflict):
            await hub.open(EpisodeRequest(idempotency_key="k", task="test/4"))
        rollout = await (await hub.open(request)).verify()
        again = await hub.open(request)
        assert again.state == "ended"
        assert again.rollout == rollout
        assert again.ticket().api_key is None


async def test_a_key_whose_episode_was_cut_short_tries_the_sample_again(tmp_path: Path) -> None:
    request = EpisodeRequest(idempotency_key="k")
    async with front(tmp_path / "run") as hub:
        cut = await (await hub.open(request)).close()
        again = await (await hub.open(request)).verify()
    assert (again.rollout_id, again.attempt, again.task) == (cut.rollout_id, 1, cut.task)
    with open_run(tmp_path / "run") as reader:
        assert reader.rollout(cut.rollout_id).attempt == 1


async def test_a_setup_that_breaks_is_tried_again_and_told_to_who_opens(tmp_path: Path) -> None:
    from rollouthub.errors import TaskError

    async with front(tmp_path / "run", set={"breaks_in": "setup"}, retries={"infrastructure": 1}) as hub:
        with pytest.raises(TaskError, match="broken in setup"):
            await hub.open(EpisodeRequest())
    with open_run(tmp_path / "run") as reader:
        outcomes = [(each.attempt, each.outcome) for each in reader.rollouts(effective=False)]
    assert outcomes == [(0, Outcome.ENVIRONMENT_FAILED), (1, Outcome.ENVIRONMENT_FAILED)]


async def test_a_service_that_ends_records_what_is_open(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        session = await hub.open(EpisodeRequest())
    assert session.rollout is not None
    assert (session.rollout.outcome, session.rollout.faults[0].type) == (Outcome.CANCELLED, "HubStopped")
    async with front(tmp_path / "run", resume=True) as hub:
        following = await (await hub.open(EpisodeRequest(task="test/0"))).close()
    assert following.sample == 1
