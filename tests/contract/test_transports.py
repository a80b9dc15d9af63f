"""One contract over every transport: the same tools, results, errors, cancellations, scores and records."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Message, Outcome, Sampling, Submission
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.hosting.open_host import configured, open_in_process, open_served
from rollouthub.limits import DEFAULT_LIMITS
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import AgentPlane, EnvironmentHost, Episode, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, Rollout, TaskRef
from rollouthub_agents.oracle import Oracle
from tests.contract.conftest import WORKBENCH, Subject
from tests.contract.drivers import OTHERS, OURS, Driver, Opener, direct

PATIENCE = 120
WRONG: list[Any] = [[], 5, "text", None]


@asynccontextmanager
async def hosted(subject: Subject) -> AsyncGenerator[EnvironmentHost]:
    """The environment in this process."""
    found = find_environment(subject.target)
    config = configured(found, subject.settings)
    async with open_in_process(found.name, found.environment, config) as host:
        yield host


@asynccontextmanager
async def served(subject: Subject) -> AsyncGenerator[EnvironmentHost]:
    """The environment in a process of its own."""
    with anyio.fail_after(PATIENCE):
        async with open_served(subject.target, subject.settings) as host:
            yield host


async def first_cards(host: EnvironmentHost, count: int = 2) -> list[TaskCard]:
    found: list[TaskCard] = []
    async for card in host.tasks(host.info.splits[0], 0):
        assert not isinstance(card, BadRow)
        found.append(card)
        if len(found) == count:
            break
    return found


def address(plane: AgentPlane) -> str:
    """The seat's URL; an in-process one has none."""
    return str(getattr(plane, "url", ""))


async def converse(driver: Driver, plane: AgentPlane, reference: Sequence[Message]) -> list[Any]:
    """Everything an agent can see: the list, what goes wrong, the reference solution, and after the end."""
    tools = await driver.tools()
    said: list[Any] = [tools, await driver.call("get_task", {})]
    for tool in tools:
        name = tool["name"]
        said.append(await driver.call(name, {"surely_not_an_argument": 1}))
        for wrong in WRONG:
            arguments: dict[str, Any] = dict.fromkeys(tool["schema"].get("properties", {}), wrong)
            said.append(await driver.call(name, {**arguments, "x": 1}))  # one after the other
    names = {tool["name"] for tool in tools}
    for message in reference:
        for request in message.tool_requests:
            if request.name != "submit":
                said.append(await driver.call(request.name, json.loads(request.arguments or "{}")))  # noqa: PERF401
        if message.text and "reply" in names:
            said.append(await driver.call("reply", {"text": message.text}))
    if "submit" in names:
        said.append(await driver.call("submit", {"answer": reference[-1].text if reference else "?"}))
        for name in sorted(names):
            closed = await driver.call(name, {})
            assert closed == {"content": [{"type": "text", "text": CLOSED}], "isError": True}
    return said


async def play(host: EnvironmentHost, opener: Opener, card: TaskCard) -> tuple[list[Any], dict[str, Any]]:
    """One episode through a client: what was seen, and the score."""
    async with host.open(card, seed=3, deadlines=Deadlines()) as episode:
        reference = await episode.reference()
        name, *others = episode.seats
        plane = episode.seats[name]
        for other in others:  # so that nothing waits for them
            await episode.leave(other)
        async with opener(plane, address(plane)) as driver:
            if driver.instructions is not None:
                prompt = card.public.prompt
                assert not isinstance(prompt, str) or prompt in driver.instructions
            said = await converse(driver, plane, reference)
        answer = reference[-1].text if reference else "?"
        score = await episode.verify(Submission(answer=answer, transcript=tuple(reference)))
        return said, score.model_dump(mode="json", exclude={"judge_calls", "verifier"})


async def test_every_client_sees_and_scores_the_same(subject: Subject) -> None:
    async with hosted(subject) as here, served(subject) as there:
        assert there.info.model_dump(exclude={"isolation"}) == here.info.model_dump(exclude={"isolation"})
        (card, *_), (other, *_) = await first_cards(here), await first_cards(there)
        assert (card.public.model_dump(), card.digest) == (other.public.model_dump(), other.digest)
        expected = await play(here, direct, card)
        for name, opener in OURS.items():
            assert await play(there, opener, other) == expected, name


@pytest.mark.live
async def test_other_peoples_clients_see_and_score_the_same(subject: Subject) -> None:
    async with hosted(subject) as here, served(subject) as there:
        (card, *_), (other, *_) = await first_cards(here), await first_cards(there)
        expected = await play(here, direct, card)
        for name, opener in OTHERS.items():
            assert await play(there, opener, other) == expected, name


async def attempt(host: EnvironmentHost, card: TaskCard) -> Rollout:
    agent = Oracle()
    info = host.info
    context = SampleContext(
        run_id="run",
        host=host,
        environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
        agent=agent,
        agent_ref=AgentRef(name=agent.name, version=agent.version),
        model=None,
        sampling=Sampling(),
        limits=info.limits.or_else(DEFAULT_LIMITS),
        deadlines=Deadlines(),
    )
    task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
    return await Attempt(Sample(context, card, task, "g", "g-0", 0, 3, None), 0, 0.0, lambda attempt: None).play()


def without_clocks(value: Any) -> Any:
    """A record without what differs from one playing to the next."""
    clocks = {"timings", "started", "seconds", "started_at", "isolation"}
    if isinstance(value, dict):
        return {key: without_clocks(inner) for key, inner in value.items() if key not in clocks}  # pyright: ignore[reportUnknownVariableType]
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


async def test_the_record_is_the_same_wherever_the_environment_lives(subject: Subject) -> None:
    async with hosted(subject) as here, served(subject) as there:
        for card, other in zip(await first_cards(here), await first_cards(there), strict=True):
            mine, theirs = await attempt(here, card), await attempt(there, other)
            assert mine.outcome is Outcome.SCORED, mine.faults
            assert mine.reward == 1.0
            assert without_clocks(theirs.model_dump(mode="json")) == without_clocks(mine.model_dump(mode="json"))
            assert (mine.isolation, theirs.isolation) == ("in_process", "process")


async def cleaned(driver: Driver) -> str:
    return (await driver.call("tally", {}))["content"][0]["text"]


async def leaves_in_mid_call(host: EnvironmentHost, opener: Opener, watcher: Opener) -> None:
    card = (await first_cards(host))[0]
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        plane = episode.seats["agent"]
        async with opener(plane, address(plane)) as driver, watcher(plane, address(plane)) as eyes:
            await driver.call_briefly("wait", {}, 2)
            with anyio.fail_after(30):
                while await cleaned(eyes) != "1 began, 1 cleaned":
                    await anyio.lowlevel.checkpoint()


async def test_a_client_that_leaves_cancels_its_call() -> None:
    subject = Subject(WORKBENCH)
    async with hosted(subject) as here, served(subject) as there:
        await leaves_in_mid_call(here, direct, direct)
        for opener in OURS.values():
            await leaves_in_mid_call(there, opener, direct)


@pytest.mark.live
async def test_other_peoples_clients_that_leave_cancel_their_calls() -> None:
    async with served(Subject(WORKBENCH)) as there:
        for opener in OTHERS.values():
            await leaves_in_mid_call(there, opener, direct)


async def breaks(host: EnvironmentHost, opener: Opener) -> Episode:
    card = (await first_cards(host))[0]
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        plane = episode.seats["agent"]
        async with opener(plane, address(plane)) as driver:
            assert (await driver.call("refuse", {}))["content"][0]["text"] == "The drawer is locked."
            assert await driver.call("crash", {}) == {"content": [{"type": "text", "text": BROKEN}], "isError": True}
        await episode.seal()
        return episode


async def test_a_fault_is_shown_as_a_fixed_sentence_and_kept_in_full() -> None:
    subject = Subject(WORKBENCH)
    async with hosted(subject) as here, served(subject) as there:
        (expected,) = (await breaks(here, direct)).faults
        assert "RuntimeError: the database at" in expected.message
        for opener in OURS.values():
            assert list((await breaks(there, opener)).faults) == [expected]


async def test_the_conversation_goes_on_over_the_wire() -> None:
    async with served(Subject(WORKBENCH)) as there:
        card = (await first_cards(there))[0]
        async with there.open(card, seed=0, deadlines=Deadlines()) as episode:
            plane = episode.seats["agent"]
            said = await plane.reply([assistant("Why?")])
            assert [message.text for message in said or ()] == ["Because."]
            assert await plane.reply([assistant("I see.")]) is None


async def offers(host: EnvironmentHost, opener: Opener) -> list[Any]:
    card = (await first_cards(host))[0]
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        plane = episode.seats["agent"]
        async with opener(plane, address(plane)) as driver:
            said = [await driver.call("offer", arguments) for arguments in ({"price": 0}, {"prize": 3}, {"price": 3})]
            assert not episode.is_sealed
            said += [await driver.call("offer", {"price": 12}), await driver.call("offer", {"price": 12})]
        return [*said, (await episode.verify(Submission())).reward]


async def test_a_tool_of_the_data_is_checked_by_its_schema_and_may_end_the_episode() -> None:
    subject = Subject(WORKBENCH)
    async with hosted(subject) as here, served(subject) as there:
        said = await offers(here, direct)
        low, unknown, refused, taken, closed, reward = said
        assert low["isError"] and "argument 'price': 0 is less than the minimum of 1" in low["content"][0]["text"]
        assert unknown["isError"] and "'price' is a required property" in unknown["content"][0]["text"]
        assert [result["structured"] for result in (refused, taken)] == [{"taken": False}, {"taken": True}]
        assert closed == {"content": [{"type": "text", "text": CLOSED}], "isError": True}
        assert reward == 0.0
        for opener in OURS.values():
            assert await offers(there, opener) == said


async def test_our_own_loop_knows_over_the_wire_that_a_tool_ended_the_episode() -> None:
    async with served(Subject(WORKBENCH)) as there:
        card = (await first_cards(there))[0]
        async with there.open(card, seed=0, deadlines=Deadlines()) as episode:
            await episode.seats["agent"].call_tool("offer", {"price": 12})
            assert episode.is_sealed
