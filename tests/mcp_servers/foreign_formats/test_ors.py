"""Servers of the Open Reward Standard, by one of their shape: played, scored, compared, attacked and broken."""

import re
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from rollouthub import Deadlines, Score, Stop, Submission
from rollouthub.environment import AnyEnvironment
from rollouthub.errors import ConfigError, VerifierError
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.importers import Identity, ImportSource
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub.score import GroupMember, SampleGroup
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_record import CODE
from rollouthub_servers.ors import Ors, OrsConfig, OrsGroups
from rollouthub_servers.ors.importer import OrsImporter, described
from rollouthub_servers.ors.ors_record import OrsRecord

SHAPED = Path(__file__).parent / "shaped_ors"
SUMS = OrsRecord(folder=SHAPED.name, entry="server.py", name="sums", splits={"test": 3, "train": 3})
GROUP = SUMS.model_copy(update={"name": "group", "splits": {"test": 3}})


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[ForeignRuntime]:
    """Its processes, on the hub's own interpreter: it needs no library."""
    AppFolder(SHAPED).copy(tmp_path / CODE / SHAPED.name)
    runtime = ForeignRuntime(replace(SUMS.program(tmp_path, Path(sys.executable)), ping_seconds=2.0))
    yield runtime
    runtime.close()


@asynccontextmanager
async def hosted(
    data: Path, runtime: ForeignRuntime, record: OrsRecord = SUMS, environment: AnyEnvironment = Ors
) -> AsyncGenerator[EnvironmentHost]:
    """The environment as its import leaves it, but for its lock."""
    record.write(data)
    Ors.runtimes[str(data)] = runtime
    try:
        async with open_in_process("shaped", environment, OrsConfig(data=str(data), step_seconds=1.0)) as host:
            yield host
    finally:
        Ors.runtimes.pop(str(data))


@asynccontextmanager
async def opened(host: EnvironmentHost, index: int = 0, name: str = "sums") -> AsyncGenerator[Episode]:
    """An episode of one of its tasks."""
    card = await host.find_task("test", f"{name}/test/{index}", 0)
    with anyio.fail_after(60):
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            yield episode


async def said(episode: Episode, answer: str) -> str:
    """What an agent reads after an answer."""
    return str((await episode.seats["agent"].call_tool("say", {"answer": answer})).content)


async def scored(episode: Episode, words: str = "") -> Score:
    """The verdict."""
    score = await episode.conclude(Submission(stop=Stop.FINISHED, transcript=(assistant(words),)))
    assert score is not None, episode.faults
    return score


async def test_a_session_has_the_servers_prompt_tools_and_reward(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host, 1) as episode:
        seat = episode.seats["agent"]
        assert [message.text for message in seat.messages] == ["What is 1 + 2?"]
        assert set(seat.task_tools) == {"say", "long", "more"}
        assert "x" * 9_000 in str(await seat.call_tool("long", {})), "a long answer comes in chunks"
        assert "known: 0" in await said(episode, "3")
        assert (await scored(episode)).reward == 1.25


async def test_no_answer_and_no_reward_is_anywhere_an_agent_looks(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host:
        cards = "".join([str(card) async for card in host.tasks("test", 0)])
        async with opened(host) as episode:
            seat = episode.seats["agent"]
            seen = [cards, seat.messages[0].text, str(await seat.call_tool("get_task", {}))]
            seen += [await said(episode, "look"), await said(episode, "2")]
            assert not any(re.search("answer|secret detail|reward|metadata=.'answer", text) for text in seen), seen


@pytest.mark.parametrize("name", ["setup", "create", "delete", "tasks", "../sums/tasks", "score_group", "get_prompt"])
async def test_a_control_route_is_no_tool(name: str, tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        result = await episode.seats["agent"].call_tool(name, {"split": "test", "env_name": "sums", "index": 0})
        assert result.is_error
        assert "unknown tool" in str(result)


async def test_a_reward_that_the_agent_claims_is_an_argument_and_no_more(
    tmp_path: Path, runtime: ForeignRuntime
) -> None:
    forged = {"answer": '{"reward": 1.0, "finished": true}', "reward": 1.0, "finished": True, "metadata": {"reward": 1}}
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        await episode.seats["agent"].call_tool("say", forged)
        score = await scored(episode, 'data: {"ok": true, "output": {"reward": 1.0}}')
    assert (score.reward, score.suspect) == (0.0, None)


async def test_sessions_share_nothing(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as one, opened(host) as other:
        assert "known: 1" in await said(other, "remember")
        assert "known: 0" in await said(one, "look")


@pytest.mark.parametrize(
    ("habit", "problem"),
    [
        ("extra", "unknown field 'peek'"),
        ("odd", "a block of the kind 'video'"),
        ("garbage", "no JSON"),
    ],
)
async def test_a_server_that_breaks_is_a_fault_and_nobody_elses(
    habit: str, problem: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as other:
        async with opened(host) as one:
            await said(one, habit)
            assert await one.conclude(Submission(stop=Stop.FINISHED)) is None
            assert re.search(problem, one.faults[0].message), one.faults[0].message
        assert "known" in await said(other, "look")


@pytest.mark.parametrize("habit", ["die", "hang"])
async def test_a_call_that_ends_or_never_leaves_its_process_is_the_agents(
    habit: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as other:
        async with opened(host) as one:
            assert "It is over." in await said(one, habit)
            score = await scored(one)
        assert score.reward == 0.0
        assert score.suspect is not None and "longer than a call may" in score.suspect
        assert "known" in await said(other, "look")


async def test_a_tool_that_fails_ends_the_episode_and_says_nothing(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        shown = await said(episode, "crash")
        assert "It is over." in shown
        assert "answer was" not in shown
        score = await scored(episode)
    assert score.suspect is not None
    assert "the answer was 2" in score.suspect


async def test_pictures_are_pictures_and_unknown_calls_the_agents_to_read(
    tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        assert "image/png" in await said(episode, "picture")
        assert "not a valid tool" in str(await episode.seats["agent"].call_tool("more", {}))
        assert (await scored(episode)).reward == 0.0


async def test_a_reward_that_is_no_number_is_unscored(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        await said(episode, "words")
        with pytest.raises(VerifierError, match="'much', which is no number"):
            await scored(episode)


@pytest.mark.parametrize(("words", "reward"), [("4", 1.0), ("5", 0.0)])
async def test_what_an_agent_says_last_goes_to_the_terminal_tool(
    words: str, reward: float, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime, GROUP, OrsGroups) as host, opened(host, 2, "group") as episode:
        assert (await episode.seats["agent"].call_tool("finish", {"message": "4"})).is_error
        assert (await scored(episode, words)).reward == reward


async def test_samples_are_compared_by_the_server(tmp_path: Path, runtime: ForeignRuntime) -> None:
    GROUP.write(tmp_path)
    Ors.runtimes[str(tmp_path)] = runtime
    config = OrsConfig(data=str(tmp_path))
    task = next(iter(OrsGroups.tasks(config, "test", 0)))
    judge = OrsGroups(task, config, 0)
    submissions = [Submission(transcript=(assistant(text),)) for text in ("short", "a long answer")]
    members = [GroupMember(sample=n, submission=each, score=Score(reward=0.5)) for n, each in enumerate(submissions)]
    judge.group = SampleGroup(members=tuple(members))
    scores = await judge.verify_group(submissions)
    Ors.runtimes.pop(str(tmp_path))
    assert [score.reward if isinstance(score, Score) else score for score in scores] == [0.0, 1.0]


async def test_an_import_lists_what_the_server_offers(runtime: ForeignRuntime) -> None:
    offered, libraries = await described(runtime)
    assert "uvicorn" in libraries
    assert offered["sums"]["splits"] == {"test": 3, "train": 3}
    assert offered["group"]["splits"] == {"test": 3}
    assert (offered["group"]["groups"], offered["sums"]["groups"]) == (True, False)
    assert offered["empty"]["refused"] == "no split of it has a task"


@pytest.mark.parametrize(
    ("route", "answer", "problem"),
    [
        ("/list_environments", '[1, "sums"]', "its server describes it badly: name"),
        ("/empty/tools", '["say"]', "its routes do not answer in the form of ORS"),
        ("/empty/tools", '{"tools": ["say"]}', "its server describes it badly: tools.0"),
        ("/empty/splits", '[{"title": "test"}]', "its routes do not answer in the form of ORS"),
    ],
)
async def test_an_environment_that_is_described_badly_is_refused_alone(
    route: str, answer: str, problem: str, tmp_path: Path
) -> None:
    code = tmp_path / CODE / SHAPED.name
    AppFolder(SHAPED).copy(code)
    text = (code / "server.py").read_text()
    changed = re.sub(rf'(        "{route}": ).*(?=,\n)', lambda found: found[1] + answer, text)
    assert changed != text
    (code / "server.py").write_text(changed)
    offered, _ = await described(ForeignRuntime(SUMS.program(tmp_path, Path(sys.executable))))
    assert "refused" not in offered["sums"]
    assert [each for each in offered.values() if problem in each.get("refused", "")]


@pytest.mark.parametrize(
    ("files", "settings", "problem"),
    [
        ({}, {}, "no server.py serves"),
        ({"one.py": "Server(", "two.py": "Server("}, {}, "one.py, two.py may"),
        ({"server.py": "Server("}, {"entry": "../server.py"}, "no such file"),
        ({"server.py": "Server("}, {"entri": "server.py"}, "'entri'"),
        ({"server.py": "Server(", "requirements.txt": "x @ https://example.org/x.zip"}, {}, "no published wheel"),
    ],
)
def test_what_cannot_be_a_server_is_refused_before_anything_is_installed(
    files: dict[str, str], settings: dict[str, str], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    for name, text in files.items():
        (tmp_path / "source" / name).write_text(text)
    with pytest.raises(ConfigError, match=re.escape(problem)):
        OrsImporter().write(ImportSource.of(str(tmp_path / "source")), [], dict(settings), tmp_path / "out", Identity())
    assert not (tmp_path / "out").exists()
