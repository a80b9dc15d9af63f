"""Every shipped environment that has a state: after a restore, the same actions come to the same results and score."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import TextContent

from rollouthub import Deadlines, Message, Submission
from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.errors import NotOffered
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import NO_SNAPSHOT, find_importer
from rollouthub.protocols import Episode
from rollouthub_servers.agent_world_model import AgentWorldModel
from rollouthub_servers.bfcl.environment import Bfcl
from rollouthub_servers.hud import Hud
from rollouthub_servers.inspect import Inspect
from rollouthub_servers.miniwob import MiniWob
from rollouthub_servers.nemo_gym.nemo_environment import NemoGym
from rollouthub_servers.openenv.openenv_environment import OpenEnv
from rollouthub_servers.ors.ors_environment import Ors
from rollouthub_servers.step_api.environment import StepGame
from rollouthub_servers.tau2.tau2_environment import Tau2
from rollouthub_servers.verifiers.verifiers_env import Verifiers
from tests.contract.conftest import CONTAINERS, SUBJECTS, Subject, make_subject
from tests.contract.test_transports import first_cards, hosted, served
from tests.mcp_servers.conftest import images

__all__ = ["images"]


def stateful() -> list[str]:
    """Those whose class takes snapshots."""
    names = [name for name in SUBJECTS if name not in ("mcp_server", "workbench")]
    classes = {name: find_environment(name).environment for name in names}
    return [name for name, kind in classes.items() if kind.snapshot is not Environment.snapshot]


def of_several_seats() -> list[str]:
    """Those of them that several agents play."""
    return [name for name in stateful() if len(find_environment(name).environment.seats) > 1]


async def act(episode: Episode, messages: list[Message]) -> list[Any]:
    """Do what a reference does; what comes of it."""
    seat = next(iter(episode.seats.values()))
    found: list[Any] = []
    for message in messages:
        for request in message.tool_requests:
            if request.name != "submit":
                result = await seat.call_tool(request.name, json.loads(request.arguments or "{}"))
                found += [block.text for block in result.content if isinstance(block, TextContent)]
        if not message.tool_requests:
            answer = await seat.reply((message,))
            found.append(None if answer is None else [said.text for said in answer])
    return found


async def ending(episode: Episode, reference: list[Message]) -> tuple[float, Any]:
    score = await episode.verify(Submission(answer=reference[-1].text, transcript=tuple(reference)))
    return score.reward, {name: value for name, value in score.metrics.items() if not name.endswith("seconds")}


SINGLE = sorted({*stateful()} - {*of_several_seats()})
PLACES = pytest.mark.parametrize("place", [hosted, served], ids=["here", "served"])


@pytest.mark.parametrize("name", SINGLE)
@PLACES
async def test_the_same_actions_after_a_restore_come_to_the_same(name: str, place: Any, tmp_path: Path) -> None:
    await need_same_actions_same_results(make_subject(name, tmp_path), place)


@pytest.mark.parametrize("name", CONTAINERS)
@PLACES
async def test_the_same_actions_in_a_restored_container_come_to_the_same(
    name: str, place: Any, tmp_path: Path, images: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUTHUB_IMAGES", images)
    await need_same_actions_same_results(make_subject(name, tmp_path), place)


async def need_same_actions_same_results(subject: Subject, place: Any) -> None:
    """Play half of a reference, keep the state, and go on from there: at once, and in two fresh episodes."""
    deadlines = Deadlines(setup=600)
    async with place(subject) as host:
        (card, *_) = await first_cards(host)
        async with host.open(card, seed=0, deadlines=deadlines) as episode:
            reference = list(await episode.reference())
            half = len(reference) // 2
            assert await act(episode, reference[:half])
            state = await episode.snapshot()
            expected = await act(episode, reference[half:]), await ending(episode, reference)
        for _ in range(2):  # what is restored shares nothing with what was restored before
            async with host.open(card, seed=0, deadlines=deadlines, state=state) as again:
                assert (await act(again, reference[half:]), await ending(again, reference)) == expected


def words(said: Sequence[Message] | None) -> list[str] | None:
    return None if said is None else [message.text for message in said]


async def take_part(episode: Episode, name: str, messages: Sequence[Message], heard: list[Any]) -> None:
    """Play a seat's messages, each at its turn; what it hears goes to `heard`."""
    seat = episode.seats[name]
    for message in messages:
        for request in message.tool_requests:
            result = await seat.call_tool(request.name, json.loads(request.arguments))
            heard.append([block.text for block in result.content if isinstance(block, TextContent)])
        if not message.tool_requests:
            heard.append(words(await seat.reply((message,))))


async def settled(episode: Episode, before: Any) -> Any:
    """The state, once it is another one and nothing more comes of what was done."""
    state, same = before, 0
    with anyio.fail_after(30):
        while same < 25:
            found = await episode.snapshot()
            same = same + 1 if found == state != before else 0
            state = found
    return state


async def go_on(episode: Episode, rest: Mapping[str, Sequence[Message]]) -> tuple[dict[str, list[Any]], Any]:
    """All seats play what is left of their references, each from its turn; what they hear, and the score."""
    heard: dict[str, list[Any]] = {name: [] for name in rest}

    async def play(name: str) -> None:
        if not episode.is_sealed and (said := words(await episode.seats[name].reply(()))) is not None:
            heard[name].append(said)
            await take_part(episode, name, rest[name], heard[name])
        await episode.leave(name)

    async with anyio.create_task_group() as seats:
        for name in rest:
            seats.start_soon(play, name)
    score = await episode.verify(Submission())
    return heard, (score.reward, score.metrics, score.seat_rewards)


@pytest.mark.parametrize("name", of_several_seats())
@PLACES
async def test_seats_go_on_after_a_restore_as_if_nothing_had_been(name: str, place: Any, tmp_path: Path) -> None:
    async with place(make_subject(name, tmp_path)) as host:
        (card, *_) = await first_cards(host)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            first, *_ = episode.seats
            references = {seat: list(await episode.reference(seat)) for seat in episode.seats}
            state = before = await episode.snapshot()
            await episode.seats[first].reply(())
            unheard: list[Any] = []
            async with anyio.create_task_group() as opening:  # the call of a move waits for the other's
                opening.start_soon(take_part, episode, first, references[first][:1], unheard)
                state = await settled(episode, before)
                opening.cancel_scope.cancel()
            rest = {seat: messages[1:] if seat == first else messages for seat, messages in references.items()}
            expected = await go_on(episode, rest)
        assert any(expected[0].values())
        for _ in range(2):
            async with host.open(card, seed=0, deadlines=Deadlines(), state=state) as again:
                assert await go_on(again, rest) == expected


def test_some_have_a_state() -> None:
    assert {"arithmetic", "code", "customer_service"} <= {*SINGLE}
    assert {"board_game", "debate", "negotiation"} == {*of_several_seats()}


FOREIGN: dict[str, AnyEnvironment] = {
    "agent_world_model": AgentWorldModel,
    "bfcl": Bfcl,
    "gem": StepGame,
    "gymnasium": StepGame,
    "hud": Hud,
    "inspect": Inspect,
    "miniwob": MiniWob,
    "nemo_gym": NemoGym,
    "openenv": OpenEnv,
    "ors": Ors,
    "tau2": Tau2,
    "textarena": StepGame,
    "verifiers": Verifiers,
}
"""Format → the class of the worlds that are made of it."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_world_takes_snapshots_or_its_format_says_that_it_takes_none(name: str) -> None:
    takes = FOREIGN[name].snapshot is not Environment.snapshot
    assert takes is (NO_SNAPSHOT not in find_importer(name).about.unpromised)
    if not takes:
        with pytest.raises(NotOffered, match="takes no snapshots"):
            FOREIGN[name].snapshot(object.__new__(FOREIGN[name]))
