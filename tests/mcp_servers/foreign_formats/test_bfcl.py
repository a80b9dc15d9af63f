"""BFCL's rows: listed, played over a driver of its shape, attacked and broken; live, over BFCL itself."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import Deadlines, Submission
from rollouthub.errors import ConfigError
from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.bfcl import Bfcl, BfclConfig
from rollouthub_servers.bfcl.row import BfclRow, RowMessage, RowTool, RowWriter
from rollouthub_servers.bfcl.shown_tools import shown_names, shown_tools
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime

CANARY = "canary-7be1"
NAMES = ("verify", "check", "open.it", "reply", "hang", "die", "fail", "garble")
SAID = RowMessage(role="user", content="Please.")


def tool(name: str) -> RowTool:
    """A function of one argument."""
    return RowTool(name=name, description="It.", parameters={"type": "object", "properties": {"x": {"type": "dict"}}})


def row(category: str, truth: Any, **more: Any) -> BfclRow:
    """A row with every function."""
    values: dict[str, Any] = {"turns": ((SAID,),), "tools": tuple(map(tool, NAMES)), "reference": (), **more}
    return BfclRow(id=category, category=category, truth=truth, **values)


ROWS = (
    row("simple_python", [{"open.it": {"x": CANARY}}]),
    row(
        "multi_turn_base",
        [[[{"verify": {"x": CANARY}}]], [[{"late": {"x": "y"}}]]],
        turns=((SAID,), (SAID,)),
        held={1: (tool("late"),)},
        classes=("World",),
        config={"World": {"secret": CANARY}},
    ),
    row("irrelevance", "None fits."),
)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncGenerator[EnvironmentHost]:
    """The environment over the rows."""
    async with hosted(tmp_path) as host:
        yield host


@asynccontextmanager
async def hosted(folder: Path) -> AsyncGenerator[EnvironmentHost]:
    """The environment over the rows, its driver running behind walls."""
    RowWriter(folder).write(ROWS)
    program = ForeignProgram(
        name="BFCL",
        python=Path(sys.executable),
        module="tests.mcp_servers.foreign_formats.shaped_bfcl",
        ping_seconds=0.5,
    )
    runtime = Bfcl.runtimes[str(folder)] = ForeignRuntime(program)
    try:
        async with open_in_process("bfcl", Bfcl, BfclConfig(data=str(folder), call_seconds=2.0)) as host:
            yield host
    finally:
        del Bfcl.runtimes[str(folder)]
        runtime.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, task: str) -> AsyncGenerator[Episode]:
    """An episode of a row."""
    card = await host.find_task("test", task, 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        yield episode


def text_of(result: CallToolResult) -> str:
    """The words of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


def test_names_are_made_safe_and_map_back_and_none_is_the_hubs() -> None:
    shown = shown_names(["a.b", "a_b", "reply", "submit", "get_task", "ä" * 90])
    assert list(shown.values()) == ["a.b", "a_b", "reply", "submit", "get_task", "ä" * 90]
    assert list(shown) == ["a_b", "a_b_2", "reply_2", "submit_2", "get_task_2", "_" * 64]
    (first, *_) = shown_tools(shown, [tool("a.b")])
    assert first.name == "a_b"
    assert first.input_schema["properties"] == {"x": {"type": "object"}}


async def test_a_tool_named_like_a_control_verb_is_a_tool_and_no_more(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as episode:
        seat = episode.seats["agent"]
        assert {"verify", "check", "open_it", "reply_2"} <= seat.task_tools
        assert text_of(await seat.call_tool("check", {"row": {"truth": 1}, "result": 1})) == "noted: 1"
        assert text_of(await seat.call_tool("verify", {})) == "noted: 2"
        assert (await seat.call_tool("prepare", {})).is_error
        assert (await episode.verify(Submission())).reward == 0.0


async def test_nothing_of_an_answer_or_a_worlds_state_is_shown(host: EnvironmentHost) -> None:
    for each in ROWS:
        card = await host.find_task("test", each.id, 0)
        assert CANARY not in card.public.model_dump_json()
        async with opened(host, each.id) as episode:
            seat = episode.seats["agent"]
            told = [await seat.call_tool(name, {}) for name in ("get_task", "fail", "verify", "nothing", "reply")]
            assert CANARY not in repr((seat.tools, seat.messages, told))


async def test_episodes_side_by_side_have_worlds_of_their_own(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as one, opened(host, "multi_turn_base") as other:
        for count in (1, 2, 3):
            assert text_of(await one.seats["agent"].call_tool("verify", {})) == f"noted: {count}"
        assert text_of(await other.seats["agent"].call_tool("verify", {})) == "noted: 1"


async def test_a_function_held_back_comes_with_its_turn_and_the_calls_are_judged_by_turn(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as episode:
        seat = episode.seats["agent"]
        assert (await seat.call_tool("late", {"x": "y"})).is_error
        await seat.call_tool("verify", {"x": CANARY})
        assert await seat.reply([assistant("And now?")])
        assert text_of(await seat.call_tool("late", {"x": "y"})) == "noted: 2"
        assert await seat.reply([assistant("Done.")]) is None
        assert (await episode.verify(Submission())).passed


async def test_single_turns_are_judged_by_their_calls_and_where_no_function_fits_by_none(host: EnvironmentHost) -> None:
    async with opened(host, "simple_python") as episode:
        await episode.seats["agent"].call_tool("open_it", {"x": CANARY})
        assert (await episode.verify(Submission())).passed
    for calls, is_right in ((0, True), (1, False)):
        async with opened(host, "irrelevance") as episode:
            seat = episode.seats["agent"]
            for _ in range(calls):
                await seat.call_tool("check", {})
            await seat.reply([assistant("None fits.")])
            assert (await episode.verify(Submission())).passed is is_right


async def test_a_call_that_never_ends_is_the_agents_and_nobody_elses(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as other:
        async with opened(host, "multi_turn_base") as episode:
            assert text_of(await episode.seats["agent"].call_tool("hang", {})) == BROKEN
            score = await episode.conclude(Submission())
            assert score is not None
            assert (score.reward, [fault.boundary for fault in episode.faults]) == (0.0, ["agent"])
        assert text_of(await other.seats["agent"].call_tool("verify", {})) == "noted: 1"


async def test_garbage_is_a_fault_and_nobody_elses(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as other:
        async with opened(host, "multi_turn_base") as episode:
            assert text_of(await episode.seats["agent"].call_tool("garble", {})) == BROKEN
            assert await episode.conclude(Submission()) is None
            assert "wrote what is no answer" in episode.faults[0].message
        assert text_of(await other.seats["agent"].call_tool("verify", {})) == "noted: 1"


async def test_a_killed_driver_is_nobodys_doing_and_the_next_episode_has_another(host: EnvironmentHost) -> None:
    async with opened(host, "multi_turn_base") as episode:
        assert text_of(await episode.seats["agent"].call_tool("die", {})) == BROKEN
        assert await episode.conclude(Submission()) is None
        assert "BFCL ended with signal 9" in episode.faults[0].message
    async with opened(host, "multi_turn_base") as episode:
        assert text_of(await episode.seats["agent"].call_tool("verify", {})) == "noted: 1"


def test_rows_are_listed_and_those_of_the_network_refused_by_name(tmp_path: Path) -> None:
    data = tmp_path / "bfcl_eval" / "data"
    data.mkdir(parents=True)
    importer, source = find_importer("bfcl"), ImportSource(str(tmp_path), "folder")
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    with pytest.raises(ConfigError, match="does not say which versions it takes of filelock"):
        importer.look(source, {})
    needed = "filelock mpmath overrides python-dotenv rank-bm25 tenacity tqdm tree-sitter tree-sitter-java"
    names = json.dumps([*needed.split(), "tree-sitter-javascript", "numpy"])
    (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = {names}\n")
    with pytest.raises(ConfigError, match="holds no rows of BFCL v4"):
        importer.look(source, {})
    for name in ("simple_python", "memory", "web_search"):
        (data / f"BFCL_v4_{name}.json").write_text(json.dumps({"id": f"{name}_0"}) + "\n")
    found = {each.id: each.reasons for each in importer.look(source, {})}
    assert [name for name, reasons in found.items() if not reasons] == [
        "simple_python_0",
        "memory_kv_0",
        "memory_rec_sum_0",
    ]
    assert "asks a search engine on the network" in found["web_search_base_0"][0]
    assert "fetches an encoder (all-MiniLM-L6-v2) from the network" in found["memory_vector_0"][0]
    (data / "BFCL_v4_multiple.json").write_text("[]\n")
    with pytest.raises(ConfigError, match=r"BFCL_v4_multiple.json:1: no row of BFCL"):
        importer.look(source, {})


@pytest.mark.live
async def test_rows_of_the_real_wheel_pass_by_their_own_answers(tmp_path: Path) -> None:
    importer, source = find_importer("bfcl"), ImportSource("bfcl-eval==2026.3.23", "requirement")
    wanted = [
        *("simple_python_0", "simple_java_1", "simple_javascript_0", "parallel_0", "live_multiple_0-0-0"),
        *("irrelevance_0", "live_relevance_0-0-0", "memory_kv_0-customer-0"),
        *(f"multi_turn_{kind}_0" for kind in ("base", "miss_func", "miss_param", "long_context")),
    ]
    (file,) = importer.write(source, wanted, {}, tmp_path / "bfcl", Identity())
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        for task in wanted:
            async with opened(host, task) as episode:
                seat = episode.seats["agent"]
                for message in await episode.reference():
                    for request in message.tool_requests:
                        assert not (await seat.call_tool(request.name, json.loads(request.arguments))).is_error
                    if not message.tool_requests:
                        await seat.reply([message])
                assert (await episode.verify(Submission())).passed, task
