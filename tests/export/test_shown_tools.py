"""Exported `tools` are those that the model was shown, request by request, whoever the agent is."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from rollouthub import Rollout
from rollouthub.engine.run_request import build_request
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer
from rollouthub.plugins.entry_points import EXPORT_FORMATS, plugins
from rollouthub.store import open_run
from rollouthub.store.record_rows import turn_rows
from tests.agents.external_stage import OWN_AGENT
from tests.engine.resuming import play
from tests.export.kept import keep, made
from tests.export.made import rollout, turn
from tests.models.servers import serving


@asynccontextmanager
async def listening(asked: list[Any]) -> AsyncGenerator[str]:
    """A model server that solves half of all sums, and notes the tools of each request."""

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST":
            asked.append((await request.json()).get("tools"))
        return await handler(request)

    server = ModelServer(MockModel(ModelConfig(name="mock/solver?accuracy=0.5")), ["served"], None)
    app = server.application()
    app.middlewares.append(note)
    async with serving(app) as url:
        yield url


def exported(run: Path) -> dict[str, list[Any]]:
    """The tools of each row, by format."""
    found: dict[str, list[Any]] = {}
    for form in plugins(EXPORT_FORMATS):
        rows = made(run, format=form).rows
        if form == "atif":
            found[form] = [row["trajectory"]["agent"].get("tool_definitions") for row in rows]
        else:
            found[form] = [None if row["tools"] is None else json.loads(row["tools"]) for row in rows if "tools" in row]
    return found


def with_other_tools(folder: Path) -> Path:
    """An agent of somebody's: it has a tool of its own, and words for `submit` of its own."""
    own: Any = {"type": "function", "function": {"name": "note", "description": "Note it.", "parameters": {}}}
    text = OWN_AGENT.read_text().replace(
        "    shown = tools.listed()\n",
        f"    shown = [*tools.listed(), {own!r}]\n    shown[-2]['function']['description'] = 'Hand it in.'\n",
    )
    file = folder / "agent.py"
    file.write_text(text)
    return file


def outside(file: Path) -> dict[str, Any]:
    """A program as the agent."""
    settings = {"command": ["python3", file.name], "files": str(file), "sandbox": "none"}
    return {"agent": "external", "agent_set": settings}


@pytest.mark.parametrize("agent", ["single_turn", "tool_loop", "react", "external", "others"])
async def test_exported_tools_are_those_of_the_requests(agent: str, tmp_path: Path) -> None:
    who = {"agent": agent}
    if agent in ("external", "others"):
        who = outside(OWN_AGENT if agent == "external" else with_other_tools(tmp_path))
    asked: list[Any] = []
    async with listening(asked) as url:
        values = {"environments": ["arithmetic"], "model": "hosted_vllm/served", "base_url": [url], "seed": 3}
        await play(build_request({**values, **who, "limit": 1, "repeats": 6}, "test"), tmp_path / "run")
    shown = asked[0]
    assert all(tools == shown for tools in asked)
    assert [tool["function"]["name"] for tool in shown or ()] == {
        "single_turn": [],
        "tool_loop": ["calculate", "submit"],
        "react": [],
        "external": ["calculate", "submit"],
        "others": ["calculate", "submit", "note"],
    }[agent]
    found = exported(tmp_path / "run")
    assert len(found["atif"]) == 6
    if agent not in ("react", "single_turn"):  # of which the mock makes no pair
        assert found["sft"]
        assert found["dpo"]
        assert found["kto"]
    for form, rows in found.items():
        assert all((tools or None) == (shown or None) for tools in rows), (form, rows[:1], shown)


def played_by(agent: str) -> Rollout:
    """A rollout from before turns told of their tools."""
    record = rollout(turn(0, [1, 2, 3], [4, 5]), tools_digest="sha256:tools")
    return record.model_copy(update={"agent": record.agent.model_copy(update={"name": agent})})


@pytest.mark.parametrize(("agent", "names"), [("single_turn", None), ("react", None), ("tool_loop", ["calculate"])])
def test_records_from_before_are_read_by_who_played(agent: str, names: list[str] | None, tmp_path: Path) -> None:
    record = played_by(agent)
    run = keep(tmp_path / "run", record)
    with open_run(run) as reader:
        assert reader.rollout(record.rollout_id).turns[0].tools is None
    [tools] = exported(run)["sft"]
    assert (None if tools is None else [tool["function"]["name"] for tool in tools]) == names


def test_a_turn_of_an_older_run_reads_back() -> None:
    [row] = turn_rows([turn(0, [1, 2, 3], [4, 5])], 1)
    older = {key: value for key, value in json.loads(row[1]).items() if key != "tools"}
    assert turn(0, [1, 2, 3], [4, 5]).model_validate(older).tools is None
