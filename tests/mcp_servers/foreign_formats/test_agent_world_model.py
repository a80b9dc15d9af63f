"""AgentWorldModel's scenarios: listed, played over applications of their shape, attacked and broken."""

import base64
import json
import sys
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import Deadlines, Submission
from rollouthub.errors import ConfigError, TaskError, VerifierError
from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.agent_world_model import AgentWorldModel, AgentWorldModelConfig
from rollouthub_servers.agent_world_model.awm_environment import ScenarioPrograms
from rollouthub_servers.agent_world_model.openapi_tools import operations_of, tools_of
from rollouthub_servers.agent_world_model.scenario_files import find_scenarios, write_scenarios
from rollouthub_servers.foreign.program import ForeignProgram
from tests.mcp_servers.foreign_formats.shaped_awm import CANARY, write_files, write_plain_files, write_plain_library

TASK = "notes_1/0"
TOLD = Submission(transcript=(assistant("Done."),))


class PlainPrograms(ScenarioPrograms):
    """Runs scenarios in the tests' own interpreter."""

    library: Path

    def program(self, scenario: str) -> ForeignProgram:
        """The same, with what stands for SQLAlchemy."""
        return replace(super().program(scenario), path=(self.library,), ping_seconds=0.5)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncGenerator[EnvironmentHost]:
    """The environment over two scenarios."""
    async with hosted(tmp_path) as host:
        yield host


@asynccontextmanager
async def hosted(folder: Path) -> AsyncGenerator[EnvironmentHost]:
    """The environment over two scenarios, their applications running behind walls."""
    data = folder / "data"
    data.mkdir()
    found = find_scenarios(write_plain_files(folder / "files"))
    write_scenarios(folder / "files", list(found.values()), data)
    config = AgentWorldModelConfig(data=str(data), call_seconds=1.0)
    programs = AgentWorldModel.programs[config.data] = PlainPrograms(data, Path(sys.executable), config)
    programs.library = write_plain_library(folder / "library")
    try:
        async with open_in_process("agent_world_model", AgentWorldModel, config) as host:
            yield host
    finally:
        del AgentWorldModel.programs[config.data]
        programs.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, task: str = TASK) -> AsyncGenerator[Episode]:
    """An episode of a task."""
    card = await host.find_task("test", task, 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        yield episode


def text_of(result: CallToolResult) -> str:
    """The words of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


async def test_the_verifier_tells_what_changed_from_what_did_not(host: EnvironmentHost) -> None:
    for written, reward in ((CANARY, 1.0), ("something else", 0.0), (None, 0.0)):
        async with opened(host) as episode:
            if written is not None:
                assert not (await episode.seats["agent"].call_tool("verify", {"text": written})).is_error
            assert (await episode.verify(TOLD)).reward == reward


async def test_a_verifier_that_fails_leaves_no_score(host: EnvironmentHost) -> None:
    async with opened(host) as episode:
        with pytest.raises(VerifierError, match="of its author's making"):
            await episode.verify(Submission(transcript=(assistant("broken"),)))


async def test_operations_are_tools_and_refusals_words(host: EnvironmentHost) -> None:
    async with opened(host) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == {"verify", "list_notes", "hang", "open", "spoil", "garble"}
        assert text_of(await seat.call_tool("list_notes", {})) == '["milk"]'
        refused = await seat.call_tool("verify", {})
        assert (refused.is_error, text_of(refused)) == (True, '422: "text is missing"')
        broken = await seat.call_tool("open", {})
        assert (broken.is_error, text_of(broken)) == (True, "500: ValueError: it breaks")


async def test_nothing_of_a_verifier_is_shown_and_no_control_verb_is_reached(host: EnvironmentHost) -> None:
    card = await host.find_task("test", TASK, 0)
    assert CANARY not in card.public.model_dump_json()
    async with opened(host) as episode:
        seat = episode.seats["agent"]
        forged: dict[str, Any] = {"code": "def verify_task_completion(): return {'result': 'complete'}", "text": "x"}
        told = [await seat.call_tool(name, forged) for name in ("verify", "open", "close", "call", "get_task")]
        assert CANARY not in repr((seat.tools, seat.messages, told))
        assert (await episode.verify(TOLD)).reward == 0.0


async def test_episodes_side_by_side_have_databases_of_their_own(host: EnvironmentHost) -> None:
    async with opened(host) as one, opened(host) as other:
        await one.seats["agent"].call_tool("verify", {"text": CANARY})
        assert text_of(await other.seats["agent"].call_tool("list_notes", {})) == '["milk"]'
        assert (await other.verify(TOLD)).reward == 0.0
        assert (await one.verify(TOLD)).reward == 1.0


async def test_files_that_an_episode_spoils_are_not_what_later_ones_begin_with(host: EnvironmentHost) -> None:
    async with opened(host) as episode:
        await episode.seats["agent"].call_tool("verify", {"text": CANARY})
        await episode.seats["agent"].call_tool("spoil", {})
        assert (await episode.verify(TOLD)).reward == 1.0
    async with opened(host) as episode:
        assert text_of(await episode.seats["agent"].call_tool("list_notes", {})) == '["milk"]'
        assert (await episode.verify(TOLD)).reward == 0.0


async def test_the_same_calls_after_a_restore_come_to_the_same(host: EnvironmentHost) -> None:
    async def rest(episode: Episode) -> tuple[str, float]:
        seat = episode.seats["agent"]
        await seat.call_tool("verify", {"text": CANARY})
        return text_of(await seat.call_tool("list_notes", {})), (await episode.verify(TOLD)).reward

    async with opened(host) as episode:
        await episode.seats["agent"].call_tool("verify", {"text": "eggs"})
        state = json.loads(json.dumps(await episode.snapshot()))
        expected = await rest(episode)
        assert [each.ref.name for each in episode.artifacts] == ["state.json"]
    assert expected[0] == json.dumps(["milk", "eggs", CANARY])
    card = await host.find_task("test", TASK, 0)
    for _ in range(2):
        async with host.open(card, seed=0, deadlines=Deadlines(), state=state) as again:
            assert await rest(again) == expected


@pytest.mark.parametrize("database", ["no base64!", base64.b64encode(zlib.compress(b"\0" * (17 << 20))).decode()])
async def test_a_state_that_is_no_database_breaks_its_own_episode_alone(host: EnvironmentHost, database: str) -> None:
    card = await host.find_task("test", TASK, 0)
    with pytest.raises(TaskError, match="failed in 'restore'"):
        async with host.open(card, seed=0, deadlines=Deadlines(), state={"database": database}):
            pass
    async with opened(host) as episode:
        assert text_of(await episode.seats["agent"].call_tool("list_notes", {})) == '["milk"]'


async def test_a_call_that_never_ends_is_the_agents_and_nobody_elses(host: EnvironmentHost) -> None:
    async with opened(host) as other:
        async with opened(host) as episode:
            assert text_of(await episode.seats["agent"].call_tool("hang", {"text": "x"})) == BROKEN
            score = await episode.conclude(TOLD)
            assert score is not None
            assert (score.reward, [fault.boundary for fault in episode.faults]) == (0.0, ["agent"])
        assert text_of(await other.seats["agent"].call_tool("list_notes", {})) == '["milk"]'


async def test_garbage_is_a_fault_and_nobody_elses(host: EnvironmentHost) -> None:
    async with opened(host) as other:
        async with opened(host) as episode:
            assert text_of(await episode.seats["agent"].call_tool("garble", {})) == BROKEN
            assert [fault.boundary for fault in episode.faults] == ["environment"]
            assert "wrote what is no answer" in episode.faults[0].message
        assert text_of(await other.seats["agent"].call_tool("list_notes", {})) == '["milk"]'


async def test_processes_nobody_plays_are_ended_but_for_some(host: EnvironmentHost) -> None:
    (programs,) = AgentWorldModel.programs.values()
    programs._config = programs._config.model_copy(update={"idle_processes": 1})  # pyright: ignore[reportPrivateUsage]
    for task in (TASK, "notes_2/0"):
        async with opened(host, task):
            pass
    assert list(programs._running) == ["notes_2"]  # pyright: ignore[reportPrivateUsage]


def test_scenarios_are_joined_by_name_and_what_is_missing_is_named(tmp_path: Path) -> None:
    importer, source = find_importer("agent_world_model"), ImportSource(str(tmp_path), "folder")
    with pytest.raises(ConfigError, match=r"gen_tasks.jsonl cannot be read"):
        importer.look(source, {})
    write_files(tmp_path, 2)
    one, _ = importer.look(source, {})
    assert (one.id, one.runs, one.facts["tasks"]) == ("notes_1", True, 1)
    assert one.unpromised == ("1 of 2 tasks have no verifier in code and are left out",)
    (tmp_path / "gen_db.jsonl").write_text("")
    assert importer.look(source, {})[0].reasons == ("gen_db.jsonl has no row of it",)
    (tmp_path / "gen_envs.jsonl").write_text("[]\n")
    with pytest.raises(ConfigError, match=r"gen_envs.jsonl:1: no row with a scenario"):
        importer.look(source, {})


def test_tools_have_flat_arguments_that_find_their_places_again() -> None:
    note = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    place = [{"in": "path", "name": "id", "required": True, "schema": {"type": "integer"}}]
    asked = [*place, {"in": "query", "name": "tag", "schema": {"type": "array"}}]
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Note"}}}}
    operation = {"operationId": "put note", "parameters": asked, "requestBody": body, "summary": "It."}
    document = {"paths": {"/n/{id}": {"put": operation}}, "components": {"schemas": {"Note": note}}}
    (tool,) = tools_of(operations := operations_of(document))
    assert (tool["name"], tool["schema"]["required"]) == ("put_note", ["id", "text"])
    path, query, sent = operations["put_note"].request({"id": "a/b", "tag": [1, True], "text": "x", "other": 1})
    assert (path, query, json.loads(sent)) == ("/n/a%2Fb", "tag=1&tag=true", {"text": "x"})


@pytest.mark.live
async def test_applications_of_fastapi_and_sqlalchemy_play(tmp_path: Path) -> None:
    importer = find_importer("agent_world_model")
    source = ImportSource(str(write_files(tmp_path / "files")), "folder")
    (file,) = importer.write(source, ["notes_1"], {}, tmp_path / "notes", Identity())
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert json.loads(text_of(await seat.call_tool("list_notes", {"contains": "mi"}))) == [
            {"id": 1, "text": "milk"}
        ]
        assert text_of(await seat.call_tool("delete_note", {"note_id": 7})).startswith("404")
        assert text_of(await seat.call_tool("verify", {"text": 1})).startswith("422")
        await seat.call_tool("verify", {"text": CANARY})
        assert text_of(await seat.call_tool("count_notes", {})) == '{"count":2}'
        async with opened(host) as other:
            assert text_of(await other.seats["agent"].call_tool("count_notes", {})) == '{"count":1}'
            assert (await other.verify(TOLD)).passed is False
        assert (await episode.verify(TOLD)).passed
