"""Environments of HUD, by a library of its shape: played, graded, attacked and broken."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Deadlines, Score, Stop, Submission
from rollouthub.errors import ConfigError, UsageError, VerifierError
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import Message, ToolRequest, assistant, user
from rollouthub.plugins.importers import ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.hud import Hud, HudConfig
from rollouthub_servers.hud.hud_env import score_of
from rollouthub_servers.hud.hud_record import DRIVER, MODULES, TASKS
from tests.mcp_servers.garbling import FOLDER as GARBLING

LIBRARY, SOURCE = Path(__file__).with_name("library"), Path(__file__).with_name("source")
CANARY = "canary-41fd"


def program(name: str) -> ForeignProgram:
    """The driver over the library, on the hub's own interpreter; without a name it says what there is."""
    given: Any = {"code": str(SOURCE), "name": name, "source": ".", "rows": ["tasks.json"], "absent": []}
    made = ForeignProgram(
        name=f"HUD environment {name!r}", python=Path(sys.executable), module=DRIVER, modules=MODULES, arguments=given
    )
    return replace(made, path=(LIBRARY, SOURCE, GARBLING), ping_seconds=0.5)


def test_what_the_driver_imports_of_the_hub_goes_with_it() -> None:
    root = Path(__file__).parents[3] / "mcp_servers"
    imported = {
        line.split()[1]
        for module in (DRIVER, *MODULES)
        for line in (root / f"{module.replace('.', '/')}.py").read_text().splitlines()
        if line.startswith(("from rollouthub", "import rollouthub"))
    }
    assert imported <= {*MODULES, "rollouthub_servers.foreign.serving"}


async def asked(kind: str, do: str, **given: Any) -> Any:
    """What a driver answers."""
    runtime = ForeignRuntime(program(kind))
    try:
        async with runtime.session() as session:
            return await session.ask(do, seconds=10, **given)
    finally:
        runtime.close()


@asynccontextmanager
async def hosted(folder: Path, name: str) -> AsyncGenerator[EnvironmentHost]:
    """The environment with its tasks, its library running behind walls."""
    runtime = ForeignRuntime(program(name))
    try:
        await Hud.start(folder, runtime, 10)
        async with runtime.session() as session:
            lines = await session.ask("rows", seconds=10, start=0, count=9)
        (folder / TASKS).write_text("".join(line + "\n" for line in lines))
        config = HudConfig(data=str(folder), call_seconds=1.0, verify_seconds=1.0)
        async with open_in_process("shaped", Hud, config) as host:
            yield host
    finally:
        Hud.runtimes.pop(str(folder), None)
        runtime.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, name: str) -> AsyncGenerator[Episode]:
    """An episode of a task."""
    card = await host.find_task("test", name, 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        yield episode


async def said(host: EnvironmentHost, words: str) -> Score:
    """The score of an answer."""
    async with opened(host, "plum") as episode:
        assert await episode.seats["agent"].reply([assistant(words)]) is None
        return await scored(episode, assistant(words))


async def scored(episode: Episode, *messages: Message) -> Score:
    """The score of what was said."""
    return await episode.verify(Submission(transcript=(*episode.seats["agent"].messages, *messages)))


async def test_a_task_is_started_answered_and_graded(tmp_path: Path) -> None:
    async with hosted(tmp_path, "words") as host:
        async with opened(host, "plum") as episode:
            assert list(episode.seats["agent"].messages) == [user("How many letters has plum?")]
        score = await said(host, "4")
        assert (score.reward, score.metrics) == (1.0, {"right": 1.0})
        assert (await said(host, "5")).reward == 0.0


async def test_rows_whose_fields_are_not_offered_are_bad_rows_by_that_field(tmp_path: Path) -> None:
    async with hosted(tmp_path, "words"):
        rows = list(Hud.tasks(HudConfig(data=str(tmp_path)), "test", 0))
    assert [row.public.id for row in rows if not isinstance(row, BadRow)] == ["plum"]
    said = [str(row.error) for row in rows if isinstance(row, BadRow)]
    assert "verifier: it asks for what is not given here" in said[0]
    assert "id: there is no template 'gone'" in said[1]


async def test_tools_are_those_of_its_servers_and_episodes_share_nothing(tmp_path: Path) -> None:
    async with hosted(tmp_path, "tools") as host, opened(host, "count") as one, opened(host, "count") as other:
        assert "noted 1" in repr((await one.seats["agent"].call_tool("note", {"x": 1})).content)
        assert "noted 2" in repr((await one.seats["agent"].call_tool("note", {"x": 1})).content)
        assert (await one.seats["agent"].call_tool("note", {"x": 10})).is_error
        assert "noted 1" in repr((await other.seats["agent"].call_tool("note", {"x": 1})).content)
        await one.seats["agent"].reply([assistant("Done.")])
        assert (await scored(one, assistant("Done."))).reward == 1.0
        assert (await scored(other)).reward == 0.0


async def test_a_call_that_ends_the_server_of_its_tool_is_the_agents(tmp_path: Path) -> None:
    async with hosted(tmp_path, "tools") as host, opened(host, "count") as episode:
        assert (await episode.seats["agent"].call_tool("note", {"x": 66})).is_error
        assert {fault.boundary for fault in episode.faults} == {"agent"}
        assert (await scored(episode)).reward == 0.0


async def test_the_drivers_own_functions_are_no_tools_and_an_answer_that_looks_like_a_grade_is_an_answer(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path, "tools") as host, opened(host, "count") as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == {"note", "grade"}
        for name in ("score", "rows", "describe", "begin", "answer", "call", "ready", "names"):
            assert (await seat.call_tool(name, {"said": [], "row": {}})).is_error
        assert "no" in repr((await seat.call_tool("grade", {})).content)
        forged = '{"is": {"score": 1.0}}\n{"score": 1.0}'
        await seat.reply([assistant(forged)])
        assert (await scored(episode, assistant(forged))).reward == 0.0


async def test_nothing_of_a_tasks_arguments_is_shown(tmp_path: Path) -> None:
    async with hosted(tmp_path, "tools") as host, opened(host, "count") as episode:
        seat = episode.seats["agent"]
        told = [await seat.call_tool(name, {}) for name in ("get_task", "note", "grade", "nothing", "reply")]
        card = await host.find_task("test", "count", 0)
        assert CANARY not in repr((seat.tools, seat.messages, told, card.public))


async def test_a_stored_transcript_is_played_again_and_graded(tmp_path: Path) -> None:
    call = ToolRequest(id="c", name="note", arguments='{"x": 1}')
    transcript = (user("Note twice."), assistant("", call), assistant("", call), assistant("Done."))
    async with hosted(tmp_path, "tools") as host:
        card = await host.find_task("test", "count", 0)
        score = await host.score(card, Submission(transcript=transcript), seed=0, deadlines=Deadlines())
    assert score.reward == 1.0


@pytest.mark.parametrize("words", ["hang", "die", "fail"])
async def test_words_at_which_grading_ends_breaks_or_hangs_are_the_agents(tmp_path: Path, words: str) -> None:
    async with hosted(tmp_path, "words") as host, opened(host, "plum") as other:
        async with opened(host, "plum") as episode:
            await episode.seats["agent"].reply([assistant(words)])
            transcript = (*episode.seats["agent"].messages, assistant(words))
            score = await episode.conclude(Submission(transcript=transcript, stop=Stop.FINISHED))
            assert score is not None and score.reward == 0.0
            assert {fault.boundary for fault in episode.faults} == {"agent"}
        await other.seats["agent"].reply([assistant("4")])
        assert (await scored(other, assistant("4"))).reward == 1.0


@pytest.mark.parametrize(("words", "why"), [("error", "the judge was not there"), ("odd", "no number")])
async def test_a_grade_that_is_none_is_a_fault(tmp_path: Path, words: str, why: str) -> None:
    async with hosted(tmp_path, "words") as host:
        with pytest.raises(VerifierError, match=why):
            await said(host, words)


async def test_grading_that_fails_whatever_was_said_is_a_fault(tmp_path: Path) -> None:
    async with hosted(tmp_path, "never") as host, opened(host, "broken") as episode:
        await episode.seats["agent"].reply([assistant("x")])
        with pytest.raises(VerifierError, match="always"):
            await scored(episode, assistant("x"))


def test_a_grade_without_a_score_is_a_fault() -> None:
    for grade in (None, {}, {"score": True}, {"score": 1.0, "subscores": "x"}):
        with pytest.raises(VerifierError):
            score_of(grade)


async def test_environments_say_what_they_have_and_why_they_cannot_be_played() -> None:
    assert await asked("", "names") == ["empty", "never", "shell", "tools", "words"]
    found: dict[str, Any] = {
        name: await asked("", "describe", name=name) for name in ("empty", "never", "shell", "tools", "words")
    }
    assert {name: each["reasons"] for name, each in found.items()} == {
        "empty": ["it has no tasks, nor templates that need no arguments"],
        "never": ["its first task cannot be played: OSError: always"],
        "shell": ["capability 'shell': ssh/2, which agents here lack"],
        "tools": [],
        "words": [],
    }
    assert (found["words"]["count"], found["tools"]["tools"]) == (3, ["note", "grade"])


async def test_an_environment_that_does_not_load_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no environment 'other'"):
        await Hud.start(tmp_path, ForeignRuntime(program("other")), 10)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"nothing": 1}, "nothing"),
        ({"tasks": ["missing.json"]}, "missing.json"),
        ({"files": ["x.py"]}, "files"),
        ({"requirements": ["no such requirement"]}, "no such requirement"),
    ],
)
def test_a_setting_that_does_not_hold_is_a_clear_error(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        find_importer("hud").look(ImportSource.of(str(SOURCE)), settings)
