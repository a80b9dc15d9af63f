"""Foreign processes that are killed, frozen or write garbage, in each format: not the agent's doing, and replaced."""

import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Stop, Submission
from rollouthub.errors import HubError
from rollouthub.messages import assistant, user
from rollouthub.processes import descendants
from rollouthub.protocols import Episode
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_record import CODE
from tests.mcp_servers.foreign_formats import (
    test_agent_world_model,
    test_bfcl,
    test_nemo_gym,
    test_openenv,
    test_ors,
    test_tau2,
)
from tests.mcp_servers.hud_tasks import test_hud
from tests.mcp_servers.inspect_tasks import shaped_host
from tests.mcp_servers.step_api import test_step_game
from tests.mcp_servers.verifiers import test_verifiers


@dataclass(frozen=True)
class Played:
    """A format's environment: how an episode is opened, and something that an agent does in it."""

    opened: Callable[[], AbstractAsyncContextManager[Episode]]
    act: Callable[[Episode, str], Awaitable[str]]
    right: str
    """What an agent does where all is well."""


async def _called(episode: Episode, name: str, given: dict[str, Any]) -> str:
    result = await episode.seats["agent"].call_tool(name, given)
    return "".join(getattr(block, "text", "") for block in result.content)


async def _said(episode: Episode, words: str) -> str:
    heard = await episode.seats["agent"].reply([assistant(words)])
    return "" if heard is None else "".join(message.text for message in heard)


@asynccontextmanager
async def nemo_gym(folder: Path) -> AsyncGenerator[Played]:
    """A resources server, shared by its episodes."""
    async with test_nemo_gym.hosted(test_nemo_gym.write_folder(folder), habit="shared") as host:
        yield Played(lambda: test_nemo_gym.opened(host), lambda of, name: _called(of, name, {"text": "x"}), "note")


@asynccontextmanager
async def verifiers(folder: Path) -> AsyncGenerator[Played]:
    """A conversation of the library's own loop."""
    async with test_verifiers.hosted(test_verifiers.write_folder(folder), "talk") as host:
        yield Played(lambda: test_verifiers.opened(host), _said, "2")


@asynccontextmanager
async def openenv(folder: Path) -> AsyncGenerator[Played]:
    """An environment over its WebSocket."""
    AppFolder(test_openenv.SHAPED).copy(folder / CODE / test_openenv.SHAPED.name)
    program = test_openenv.draft("ws").program(folder, Path(sys.executable))
    runtime = ForeignRuntime(replace(program, ping_seconds=0.5))
    try:
        async with test_openenv.hosted(folder, runtime, step_seconds=1.0) as host:
            yield Played(lambda: test_openenv.opened(host), test_openenv.said, "x")
    finally:
        runtime.close()


@asynccontextmanager
async def ors(folder: Path) -> AsyncGenerator[Played]:
    """A server's session."""
    AppFolder(test_ors.SHAPED).copy(folder / CODE / test_ors.SHAPED.name)
    program = test_ors.SUMS.program(folder, Path(sys.executable))
    runtime = ForeignRuntime(replace(program, ping_seconds=0.5))
    try:
        async with test_ors.hosted(folder, runtime) as host:
            yield Played(lambda: test_ors.opened(host), test_ors.said, "look")
    finally:
        runtime.close()


@asynccontextmanager
async def tau2(folder: Path) -> AsyncGenerator[Played]:
    """A desk with its database."""
    async with test_tau2.scripted(test_tau2.write_data(folder)) as host:
        yield Played(lambda: test_tau2.opened(host, "desk/told"), lambda of, name: _called(of, name, {}), "set")


@asynccontextmanager
async def bfcl(folder: Path) -> AsyncGenerator[Played]:
    """A simulated API."""
    async with test_bfcl.hosted(folder) as host:
        yield Played(lambda: test_bfcl.opened(host, "multi_turn_base"), lambda of, name: _called(of, name, {}), "check")


@asynccontextmanager
async def agent_world_model(folder: Path) -> AsyncGenerator[Played]:
    """A scenario's application."""
    async with test_agent_world_model.hosted(folder) as host:
        yield Played(lambda: test_agent_world_model.opened(host), lambda of, name: _called(of, name, {}), "list_notes")


@asynccontextmanager
async def step_api(folder: Path) -> AsyncGenerator[Played]:
    """A game."""
    runtime = ForeignRuntime(replace(test_step_game.PROGRAM, ping_seconds=0.5))
    data = test_step_game.game_data(folder, "Guess-v0", 1)

    async def act(episode: Episode, action: str) -> str:
        return await _called(episode, "step", {"action": action})

    try:
        yield Played(lambda: test_step_game.opened(data, runtime, step_seconds=1.0), act, "x")
    finally:
        runtime.close()


@asynccontextmanager
async def inspect(folder: Path) -> AsyncGenerator[Played]:
    """A conversation of a task's solver."""
    lines = await shaped_host.asked("talk", "rows", start=0, count=9)
    async with shaped_host.hosted(shaped_host.write_folder(folder, lines), "talk") as host:
        yield Played(lambda: shaped_host.opened(host), _said, "what?")


@asynccontextmanager
async def hud_words(folder: Path) -> AsyncGenerator[Played]:
    """A template's grade of what was said."""
    async with test_hud.hosted(folder, "words") as host:
        yield Played(lambda: test_hud.opened(host, "plum"), _said, "4")


@asynccontextmanager
async def hud(folder: Path) -> AsyncGenerator[Played]:
    """A template's tools."""
    async with test_hud.hosted(folder, "tools") as host:
        yield Played(lambda: test_hud.opened(host, "count"), lambda of, name: _called(of, name, {"x": 1}), "note")


FORMATS = (nemo_gym, verifiers, openenv, ors, tau2, bfcl, agent_world_model, step_api, inspect, hud)


def _signal(number: signal.Signals) -> None:
    """Send a signal to all foreign processes; what watches over them is not stopped, as it would end nothing then."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"/line/socket" in command and (number == signal.SIGKILL or b"/processes.py" not in command):
                os.kill(pid, number)


async def _blamed(played: Played, episode: Episode, words: str) -> list[str]:
    """Do something, end the episode, and say who is blamed and for what."""
    blamed = list[str]()
    try:
        await played.act(episode, words)
        said = Submission(transcript=(user("?"), assistant(words)), stop=Stop.FINISHED)
        assert await episode.conclude(said) is None, "it is not scored"
    except HubError as error:
        blamed.append(f"{type(error).__name__}: {error}")
    return [*blamed, *(f"{fault.boundary}: {fault.message}" for fault in episode.faults)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
@pytest.mark.parametrize("format", FORMATS, ids=lambda each: each.__name__)
async def test_a_process_that_somebody_ends_or_stops_is_not_the_agents_doing(
    format: Callable[[Path], AbstractAsyncContextManager[Played]], number: signal.Signals, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with format(tmp_path) as played:
            async with played.opened() as episode:
                await played.act(episode, played.right)
                _signal(number)
                blamed = await _blamed(played, episode, played.right)
            assert blamed
            assert all(each.startswith(("TaskError", "VerifierError", "environment", "verifier")) for each in blamed)
            assert re.search("ended with|nor anything else since", blamed[0]), blamed
            async with played.opened() as episode:
                await played.act(episode, played.right)
                assert not episode.faults


@pytest.mark.parametrize("format", [verifiers, step_api, inspect, hud_words], ids=lambda each: each.__name__)
async def test_garbage_of_a_library_is_not_the_agents_doing(
    format: Callable[[Path], AbstractAsyncContextManager[Played]], tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with format(tmp_path) as played:
            async with played.opened() as episode:
                blamed = await _blamed(played, episode, "garble")
            assert all(each.startswith(("TaskError", "VerifierError", "environment", "verifier")) for each in blamed)
            assert "wrote what is no answer" in blamed[0], blamed
            async with played.opened() as episode:
                await played.act(episode, played.right)
                assert not episode.faults
