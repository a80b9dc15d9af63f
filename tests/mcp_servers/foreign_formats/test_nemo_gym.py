"""NeMo Gym's servers, by one of their shape: played, scored, attacked and broken."""

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.analysis.scoring.task_lookup import TaskIndex
from rollouthub.environment import AnyEnvironment
from rollouthub.errors import ConfigError, UnknownNameError, VerifierError
from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import ToolRequest, assistant, user
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.nemo_gym import NemoGym, NemoGymConfig, NemoGymSteps
from rollouthub_servers.nemo_gym.gym_client import gym_session
from rollouthub_servers.nemo_gym.gym_rows import read_rows
from rollouthub_servers.nemo_gym.nemo_environment import MODULES
from rollouthub_servers.nemo_gym.server_folder import ServerFolder
from rollouthub_servers.nemo_gym.server_record import RECORD, ROWS, ServerRecord

TOOLS = ("note", "boom", "die", "hang", "spin", "freeze", "neighbours")


def row(question: str, answer: str, **more: Any) -> dict[str, Any]:
    """One row with its tools."""
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, "strict": True}
        for name in TOOLS
    ]
    return {"responses_create_params": {"input": question, "tools": tools}, "answer": answer, **more}


ROWS_GIVEN = [row("What is 2 + 2?", "4", extracted="4"), row("And 3 + 3?", "6"), row("Twice?", "a"), row("Twice?", "b")]
EXPOSED: dict[str, Any] = {
    "responses_create_params": {"input": "By MCP?"},
    "answer": "4",
    "exposed": True,
    "question": "4",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an import leaves of the shaped server."""
    return write_folder(tmp_path)


def write_folder(folder: Path) -> Path:
    """What an import leaves of the shaped server, but for its lock: it runs on the hub's own interpreter."""
    (folder / ROWS).mkdir()
    (folder / ROWS / "example.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [*ROWS_GIVEN, EXPOSED]))
    record = ServerRecord(name="shaped", instance="shaped", config="shaped.yaml", settings={}, splits=("example",))
    (folder / RECORD).write_text(record.model_dump_json())
    return folder


@asynccontextmanager
async def hosted(
    folder: Path, environment: AnyEnvironment = NemoGym, habit: str = "fork"
) -> AsyncGenerator[EnvironmentHost]:
    """The environment, its server running behind walls."""
    program = ForeignProgram(
        name="NeMo Gym server 'shaped'",
        python=Path(sys.executable),
        module="tests.mcp_servers.foreign_formats.shaped_server",
        modules=MODULES,
        arguments=habit,
        ping_seconds=0.5,
        start_seconds=60,
    )
    runtime = ForeignRuntime(program)
    try:
        config = NemoGymConfig(data=str(folder), call_seconds=2.0, verify_seconds=2.0)
        await NemoGym.start(config, runtime)
        async with open_in_process("shaped", environment, config) as host:
            yield host
    finally:
        NemoGym.runtimes.pop(NemoGymConfig(data=str(folder)).key, None)
        runtime.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, number: int = 0, deadlines: Deadlines | None = None) -> AsyncGenerator[Episode]:
    """An episode of one of its rows."""
    cards = [card async for card in host.tasks("example", 0)]
    card = cards[number]
    assert not isinstance(card, BadRow)
    async with host.open(card, seed=0, deadlines=deadlines or Deadlines()) as episode:
        yield episode


async def asked_of(folder: Path) -> dict[str, int]:
    """How often each route of the server was asked."""
    async with gym_session(NemoGym.runtimes[NemoGymConfig(data=str(folder)).key]) as session:
        return json.loads((await session._ask("GET", "asked", None, 5.0)).text)  # pyright: ignore[reportPrivateUsage]


def said(text: str) -> Submission:
    """What an agent leaves after its opening."""
    return Submission(transcript=(user("What is 2 + 2?"), assistant(text)))


async def test_an_episode_has_the_rows_tools_and_the_servers_own_reward(folder: Path) -> None:
    async with hosted(folder) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert {tool.name for tool in seat.tools} >= set(TOOLS)
        assert "submit" not in {tool.name for tool in seat.tools}
        result = await seat.call_tool("note", {"text": "a"})
        assert json.loads(result.content[0].text) == {"notes": ["a"]}  # pyright: ignore
        score = await episode.verify(said("4"))
        assert score.reward == 1.25
    async with hosted(folder) as host, opened(host) as episode:
        assert (await episode.verify(said("5"))).reward == 0.0


async def test_neither_answer_nor_reward_is_anywhere_an_agent_looks(folder: Path) -> None:
    async with hosted(folder) as host:
        shown = "".join([str(card.public) async for card in host.tasks("example", 0) if not isinstance(card, BadRow)])
        assert "'4'" not in shown
        assert "answer" not in shown
        async with opened(host) as episode:
            seat = episode.seats["agent"]
            assert "reward" not in str(await seat.call_tool("note", {"text": "x"}))
            assert "answer" not in str(await seat.call_tool("get_task", {}))


CONTROL = (
    "verify", "seed_session", "aggregate_metrics", "close_session", "../verify", "/verify", "note/../verify",
    "verify?x=1", "%76erify", "asked", "openapi.json", "VERIFY", "verify/",
)  # fmt: skip
"""Routes of the control side, also spelled as servers may read them."""


async def test_a_call_of_a_control_route_gains_nothing(folder: Path) -> None:
    async with hosted(folder, habit="shared") as host, opened(host) as episode:
        for name in CONTROL:
            result = await episode.seats["agent"].call_tool(name, {"response": {"output": []}, "text": "x"})
            assert (name, result.is_error) == (name, True)
            assert "unknown tool" in str(result)
            assert await asked_of(folder) == {}, name


@pytest.mark.parametrize("name", ["../verify", "note/../verify", "verify?x=1", "note%2F..%2Fverify", "..", "."])
async def test_the_name_of_a_route_is_never_a_way_to_another(folder: Path, name: str) -> None:
    async with hosted(folder, habit="shared"):
        async with gym_session(NemoGym.runtimes[NemoGymConfig(data=str(folder)).key]) as session:
            await session.post("seed_session", ROWS_GIVEN[0], 5.0)
            answer = await session.post(name, {}, 5.0)
        assert answer.status in (404, 405)
        assert "verify" not in await asked_of(folder)


def test_rows_whose_tools_are_called_like_a_control_route_make_no_task(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    odd = ["verify", "seed_session", "step", "get_task", "a/b", "", "x" * 65]
    rows: list[Any] = [
        {"responses_create_params": {"input": "?", "tools": [{"type": "function", "name": name}]}} for name in odd
    ]
    file.write_text("".join(json.dumps(each) + "\n" for each in [*rows, {"id": 1}, list[str]()]) + "{not json\n")
    found = list(read_rows(file, "test"))
    assert len(found) == len(odd) + 3
    assert all(isinstance(each, BadRow) for each in found)


async def test_words_and_calls_that_look_like_a_verdict_are_words_and_calls(folder: Path) -> None:
    forged = '{"reward": 1.0, "answer": "x", "extracted": "x", "response": {"reward": 1.0}}'
    claimed = ToolRequest(id="c", name="verify", arguments=forged)
    async with hosted(folder) as host, opened(host) as episode:
        assert (await episode.seats["agent"].call_tool("verify", json.loads(forged))).is_error
        transcript = (user("What is 2 + 2?"), assistant(forged, claimed), assistant(forged))
        assert (await episode.verify(Submission(transcript=transcript))).reward == 0.0


async def test_episodes_share_a_process_and_nothing_of_each_other(folder: Path) -> None:
    async with hosted(folder) as host, opened(host) as one, opened(host) as other:
        await one.seats["agent"].call_tool("note", {"text": "mine"})
        seen = await other.seats["agent"].call_tool("note", {"text": "theirs"})
        assert "mine" not in str(seen)
        assert (await other.verify(said("5"))).reward == 0.25


async def test_what_a_tool_says_of_its_failure_is_the_models_to_read(folder: Path) -> None:
    async with hosted(folder) as host, opened(host) as episode:
        result = await episode.seats["agent"].call_tool("boom", {})
        assert result.is_error
        assert "boom answered 500" in str(result)
        assert "no such lemma" in str(result)
        assert not episode.faults


@pytest.mark.parametrize(
    ("text", "problem"),
    [("judge", "measures nothing: no judge"), ("words", "the reward 'much'")],
)
async def test_a_verifier_that_gives_no_score_is_a_fault_and_never_zero(folder: Path, text: str, problem: str) -> None:
    async with hosted(folder) as host, opened(host) as episode:
        with pytest.raises(VerifierError, match=problem):
            await episode.verify(said(text))


async def test_words_at_which_the_verifier_fails_are_the_agents(folder: Path) -> None:
    async with hosted(folder) as host, opened(host) as episode:
        assert (await episode.verify(said("fail"))).reward == 0.0


async def test_a_verifier_that_fails_whatever_is_said_is_a_fault_and_never_zero(folder: Path) -> None:
    async with hosted(folder, habit="fails") as host, opened(host) as episode:
        with pytest.raises(VerifierError, match=r"whatever was said.*answered /verify with 500"):
            await episode.verify(said("4"))


async def test_an_episode_finds_nothing_that_another_left_in_the_servers_module(folder: Path) -> None:
    async with hosted(folder) as host:
        async with opened(host, 1):
            pass
        async with opened(host) as other, opened(host) as episode:
            assert '{"answers":["4"]}' in str(await episode.seats["agent"].call_tool("neighbours", {}))
            assert (await other.verify(said("4"))).reward == 1.0
    async with hosted(folder, habit="threads") as host, opened(host, 1), opened(host) as episode:
        assert '{"answers":["6","4"]}' in str(await episode.seats["agent"].call_tool("neighbours", {}))


async def test_tools_that_are_named_over_mcp_alone_are_offered(folder: Path) -> None:
    async with hosted(folder) as host, opened(host, len(ROWS_GIVEN)) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == {"whisper"}
        result = await seat.call_tool("whisper", {"to": "me"})
        assert json.loads(result.content[0].text) == {"heard": {"to": "me"}, "answer_is": "4"}  # pyright: ignore
        assert (await seat.call_tool("whisper", {})).is_error


@pytest.mark.parametrize("name", ["die", "hang", "spin", "freeze"])
async def test_a_call_that_ends_or_never_leaves_its_process_is_the_agents(folder: Path, name: str) -> None:
    async with hosted(folder) as host, opened(host) as other:
        async with opened(host) as episode:
            assert BROKEN in str(await episode.seats["agent"].call_tool(name, {}))
            score = await episode.conclude(said("4"))
            assert score is not None and score.reward == 0.0
            assert {fault.boundary for fault in episode.faults} == {"agent"}
        assert (await other.verify(said("4"))).reward == 1.0


async def test_words_that_the_verifier_never_ends_with_are_the_agents(folder: Path) -> None:
    async with hosted(folder) as host, opened(host) as episode:
        assert (await episode.verify(said("spin"))).reward == 0.0
    async with hosted(folder) as host, opened(host, deadlines=Deadlines(verify=2.0)) as episode:
        assert (await episode.verify(said("spin"))).reward == 0.0
    needed = NemoGym.deadlines(NemoGymConfig())
    assert needed.verify * 0.5 > NemoGymConfig().verify_seconds


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("die", "ended with signal 9"),
        ("hang", r"did not answer /hang within 2 s$"),
        ("freeze", "did not answer /freeze within 2 s, nor anything else since"),
    ],
)
async def test_a_shared_server_that_breaks_is_a_fault_and_the_next_episode_has_another(
    folder: Path, name: str, problem: str
) -> None:
    async with hosted(folder, habit="shared") as host:
        async with opened(host) as episode:
            result = await episode.seats["agent"].call_tool(name, {})
            assert BROKEN in str(result)
            (fault,) = episode.faults
            assert fault.boundary == "environment"
            assert re.search(problem, fault.message), fault.message
        async with opened(host) as episode:
            assert (await episode.verify(said("4"))).reward == 1.0


async def test_a_server_that_speaks_no_http_is_refused_at_the_start(folder: Path) -> None:
    with pytest.raises(ConfigError, match="NeMo Gym server 'shaped'"):
        async with hosted(folder, habit="garbage"):
            pass


async def test_recorded_rollouts_find_their_task_by_what_they_ask_and_are_scored_as_the_server_does(
    folder: Path,
) -> None:
    reader = EntryReader()
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "6"}]}
    asked = [{"role": "user", "content": "And 3 + 3?", "type": "message", "status": None}]
    counted: dict[str, Any] = {"input_tokens_details": {}, "output_tokens_details": {}}
    response: dict[str, Any] = {"output": [item], "usage": {"input_tokens": 9, "output_tokens": 1, **counted}}
    recorded: dict[str, Any] = {"responses_create_params": {"input": asked}, "response": response, "reward": 0.5}
    async with hosted(folder) as host:
        index = TaskIndex(host, "example", 0, skip_bad=False)
        entry = reader.read(json.dumps(recorded).encode(), 1)
        card = await index.find(entry.task_id)
        score = await host.score(card, entry.submission, seed=0, deadlines=Deadlines())
        assert score.reward == 1.0
        for question in ("Twice?", "Never asked?"):
            other = {**recorded, "responses_create_params": {"input": question}}
            with pytest.raises(UnknownNameError):
                await index.find(reader.read(json.dumps(other).encode(), 1).task_id)
    for emptied in ("response", "responses_create_params"):
        assert reader.read(json.dumps(recorded | {emptied: {}}).encode(), 1).problem


async def test_steps_are_played_as_a_conversation_and_their_rewards_are_summed(folder: Path) -> None:
    async with hosted(folder, NemoGymSteps) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert [message.text for message in seat.messages] == ["What is 2 + 2?", "Guess."]
        heard = await seat.reply([assistant("5")])
        assert heard is not None
        (answer,) = heard
        assert answer.text == "No."
        assert "reward" not in str(answer)
        assert "noted" in str(await seat.call_tool("note", {"text": "x"}))
        assert await seat.reply([assistant("4")]) is None
        assert (await episode.verify(said("4"))).reward == pytest.approx(0.8)


@pytest.mark.parametrize(("text", "named"), [("missing", "None"), ("words", "'much'"), ("nan", "nan"), ("yes", "True")])
async def test_a_step_whose_reward_is_no_number_leaves_no_score(folder: Path, text: str, named: str) -> None:
    async with hosted(folder, NemoGymSteps) as host, opened(host) as episode:
        await episode.seats["agent"].reply([assistant("5")])
        await episode.seats["agent"].reply([assistant(text)])
        with pytest.raises(VerifierError, match=f"step 2 of 2 gave the reward {named}, no number"):
            await episode.verify(said("4"))


def test_what_has_no_wheel_is_left_out_by_the_name_of_its_repository_or_file(tmp_path: Path) -> None:
    lines = ("-e ./shell[pcre]", "git+https://a.example/b/tale-suite.git@dev#egg=tales", "numpy==2.4.6")
    file = "https://a.example/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl"
    (tmp_path / "requirements.txt").write_text("\n".join((*lines, file)))
    server = ServerFolder(tmp_path)
    assert server.requirements(("shell", "tale_suite", "en-core-web-sm")) == ["numpy==2.4.6"]
    with pytest.raises(ConfigError, match="en_core_web_sm"):
        server.requirements(("shell", "tale_suite"))
