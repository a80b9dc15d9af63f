"""Environments of verifiers, by a library of its shape: played, scored, attacked and broken."""

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Deadlines, Score, Stop, Submission
from rollouthub.errors import ConfigError, HubError, SandboxOverrun, TaskError, UsageError, VerifierError
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import Message, ToolRequest, assistant, user
from rollouthub.plugins.importers import ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.verifiers import Verifiers, VerifiersConfig
from rollouthub_servers.verifiers.env_record import RECORD, ROWS, EnvRecord, Kind
from rollouthub_servers.verifiers.env_rows import read_rows
from rollouthub_servers.verifiers.env_source import driver_modules, find_envs
from tests.mcp_servers.garbling import FOLDER as GARBLING

LIBRARY = Path(__file__).with_name("library")
CANARY = "canary-41fd"
_OWN = "rollouthub_servers.verifiers"


def program(kind: str, judge: str = "refuse") -> ForeignProgram:
    """The driver over the library, on the hub's own interpreter."""
    given: Any = {"kind": "v0", "module": "shaped_env", "args": {"kind": kind}, "judge": judge}
    return ForeignProgram(
        name=f"verifiers environment {kind!r}",
        python=Path(sys.executable),
        module=f"{_OWN}.verifiers_driver",
        modules=driver_modules("v0"),
        arguments={**given, "datasets": {}, "absent": []},
        path=(LIBRARY, GARBLING),
        ping_seconds=0.5,
    )


@pytest.mark.parametrize("kind", ["v0", "v1"])
def test_what_the_driver_imports_of_the_hub_goes_with_it(kind: Kind) -> None:
    modules = (f"{_OWN}.verifiers_driver", *driver_modules(kind))
    root = Path(__file__).parents[3] / "mcp_servers"
    imported = {
        line.split()[1]
        for module in modules
        for line in (root / f"{module.replace('.', '/')}.py").read_text().splitlines()
        if line.startswith(("from rollouthub", "import rollouthub"))
    }
    assert imported <= {*modules, "rollouthub_servers.foreign.serving"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an import leaves of an environment."""
    return write_folder(tmp_path)


def write_folder(folder: Path) -> Path:
    """What an import leaves of an environment, but for its lock and code."""
    (folder / ROWS).mkdir()
    rows = [{"prompt": [{"role": "user", "content": f"What is {n} + {n}?"}], "answer": str(2 * n)} for n in range(3)]
    lines = "".join(json.dumps({**row, "info": {"secret": CANARY}}) + "\n" for row in rows)
    (folder / ROWS / "eval.jsonl").write_text(lines + "null\n")
    record = EnvRecord(name="shaped", kind="v0", module="shaped_env", splits={"eval": 4}, max_turns=3)
    (folder / RECORD).write_text(record.model_dump_json())
    return folder


@asynccontextmanager
async def hosted(folder: Path, kind: str) -> AsyncGenerator[EnvironmentHost]:
    """The environment, its library running behind walls."""
    runtime = ForeignRuntime(program(kind))
    try:
        await Verifiers.start(folder, runtime, 10)
        config = VerifiersConfig(data=str(folder), call_seconds=1.0, verify_seconds=5.0)
        async with open_in_process("shaped", Verifiers, config) as host:
            yield host
    finally:
        Verifiers.runtimes.pop(str(folder), None)
        runtime.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, number: int = 1) -> AsyncGenerator[Episode]:
    """An episode of a row."""
    card = await host.find_task("eval", f"eval-{number}", 0)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        yield episode


def text_of(result: Any) -> str:
    """The words of a tool's result."""
    return "".join(block.text for block in result.content)


async def scored(episode: Episode, *said: Message) -> Score:
    """Its score for what was said."""
    return await episode.verify(Submission(transcript=(*episode.seats["agent"].messages, *said)))


def test_rows_are_tasks_whose_answers_are_secret_and_what_is_no_json_is_a_bad_row(folder: Path) -> None:
    file = folder / ROWS / "eval.jsonl"
    file.write_bytes(file.read_bytes() + b'{"prompt": [{"role": "user", "content": "What is 3\xff?"}]}\n')
    tasks = list(read_rows(file, "eval"))
    assert [task.public.id for task in tasks if not isinstance(task, BadRow)] == ["eval-0", "eval-1", "eval-2"]
    assert [isinstance(task, BadRow) for task in tasks[3:]] == [True, True]
    assert not isinstance(tasks[0], BadRow)
    shown = tasks[0].public.model_dump_json()
    assert "What is 0 + 0?" in shown
    assert CANARY not in shown


async def test_a_conversation_is_the_librarys_and_ends_where_it_does(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert [message.text for message in seat.messages] == ["What is 1 + 1?"]
        said = [assistant("3"), assistant("4"), assistant("2")]
        assert await seat.reply(said[:1]) == [user("Are you sure?")]
        assert await seat.reply(said[1:2]) == [user("Are you sure?")]
        assert await seat.reply(said[2:]) is None
        score = await scored(episode, *said)
    assert score.reward == pytest.approx(1.03)
    assert score.metrics == {"exact": 1.0, "turns": 0.03}


async def test_who_leaves_early_is_scored_for_what_was_said(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as episode:
        await episode.seats["agent"].reply([assistant("2")])
        score = await scored(episode, assistant("2"))
    assert (score.metrics["exact"], score.suspect) == (1.0, None)


async def test_calls_of_one_message_are_one_turn_when_it_is_scored(folder: Path) -> None:
    async with hosted(folder, "tools") as host, opened(host) as episode:
        seat = episode.seats["agent"]
        calls = [ToolRequest(id=f"c{n}", name="count", arguments=f'{{"x": {n}}}') for n in (1, 2, 3)]
        for call in calls:
            assert not (await seat.call_tool(call.name, json.loads(call.arguments))).is_error
        assert await seat.reply([assistant("Done.")]) is None
        score = await scored(episode, assistant("Well.", *calls), assistant("Done."))
    assert score.metrics == {"called": pytest.approx(1.3), "turns": 0.02}


async def test_a_message_past_the_librarys_turns_counts_for_nothing(folder: Path) -> None:
    async with hosted(folder, "tools") as host, opened(host) as episode:
        said: list[Message] = []
        for number in range(4):
            call = ToolRequest(id="c", name="count", arguments=f'{{"x": {number}}}')
            await episode.seats["agent"].call_tool("count", {"x": number})
            said.append(assistant("", call))
        score = await scored(episode, *said)
    assert score.metrics == {"called": pytest.approx(2.1), "turns": 0.02}


async def test_calls_that_a_transcript_claims_and_nobody_made_earn_nothing(folder: Path) -> None:
    async with hosted(folder, "tools") as host, opened(host) as episode:
        await episode.seats["agent"].call_tool("count", {"x": 1})
        claimed = [ToolRequest(id=f"c{n}", name="verify", arguments="{}") for n in range(5)]
        score = await scored(episode, assistant("", *claimed))
    assert score.metrics["called"] == pytest.approx(1.1)


async def test_a_tool_named_like_the_control_side_is_a_tool_and_no_more(folder: Path) -> None:
    async with hosted(folder, "tools") as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == {"count", "verify"}
        assert text_of(await seat.call_tool("verify", {"x": 1})) == "noted"
        for name in ("score", "score_group", "rows", "describe", "begin", "answer", "call", "ready"):
            assert (await seat.call_tool(name, {"said": [], "row": {}})).is_error
        await seat.reply([assistant('{"reward": 9, "metrics": {"called": 9}}')])
        assert (await scored(episode)).reward < 2


async def test_nothing_of_an_answer_or_a_state_is_shown(folder: Path) -> None:
    for kind in ("talk", "tools"):
        async with hosted(folder, kind) as host, opened(host) as episode:
            seat = episode.seats["agent"]
            told = [await seat.call_tool(name, {}) for name in ("get_task", "count", "verify", "nothing", "reply")]
            heard = await seat.reply([assistant("?")])
            assert CANARY not in repr((seat.tools, seat.messages, told, heard))


async def test_episodes_share_nothing_even_in_the_librarys_own_modules(folder: Path) -> None:
    async with hosted(folder, "tools") as host, opened(host) as one, opened(host) as other:
        for _ in range(3):
            await other.seats["agent"].call_tool("count", {"x": 7})
        assert text_of(await one.seats["agent"].call_tool("count", {"x": 1})) == "101"


async def test_a_stored_transcript_is_played_again_and_scored(folder: Path) -> None:
    async with hosted(folder, "talk") as host:
        card = await host.find_task("eval", "eval-1", 0)
        said = (user("What is 1 + 1?"), assistant("3"), user("Are you sure?"), assistant("2"))
        score = await host.score(card, Submission(transcript=said), seed=0, deadlines=Deadlines())
    assert score.metrics == {"exact": 1.0, "turns": 0.02}


async def test_a_reward_function_that_fails_is_no_silent_zero(folder: Path) -> None:
    async with hosted(folder, "broken") as host:
        async with opened(host) as episode:
            await episode.seats["agent"].reply([assistant("odd")])
            score = await scored(episode, assistant("odd"))
            assert score.reward == 0.0
            assert score.suspect is not None
            assert "KeyError: 'odd'" in score.suspect
        async with opened(host) as episode:
            await episode.seats["agent"].reply([assistant("fine")])
            assert (await scored(episode, assistant("fine"))).suspect is None


async def test_a_service_that_is_not_there_is_unscored(folder: Path) -> None:
    async with hosted(folder, "judged") as host, opened(host) as episode:
        await episode.seats["agent"].reply([assistant("odd")])
        with pytest.raises(VerifierError, match="a service that is not there"):
            await scored(episode, assistant("odd"))


async def test_an_environment_that_asks_a_model_itself_is_unscored_and_shows_nothing(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as episode:
        assert await episode.seats["agent"].reply([assistant("ask")]) is None
        with pytest.raises(VerifierError, match="asks a model itself"):
            await scored(episode, assistant("ask"))


@pytest.mark.parametrize("words", ["hang", "die"])
async def test_words_that_end_or_never_leave_the_rollouts_process_are_the_agents(folder: Path, words: str) -> None:
    async with hosted(folder, "talk") as host:
        async with opened(host) as episode, opened(host) as other:
            with pytest.raises(SandboxOverrun):
                await episode.seats["agent"].reply([assistant(words)])
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            assert score is not None and score.reward == 0.0
            assert {fault.boundary for fault in episode.faults} == {"agent"}
            assert await other.seats["agent"].reply([assistant("2")]) == [user("Are you sure?")]
        async with opened(host) as another:
            assert await another.seats["agent"].reply([assistant("2")]) == [user("Are you sure?")]


async def test_words_that_make_the_environments_code_fail_are_the_agents(folder: Path) -> None:
    async with hosted(folder, "talk") as host, opened(host) as other:
        async with opened(host) as episode:
            await episode.seats["agent"].reply([assistant("2")])
            with pytest.raises(SandboxOverrun, match="KeyError"):
                await episode.seats["agent"].reply([assistant("fail")])
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            assert score is not None and score.reward == 0.0
            assert {fault.boundary for fault in episode.faults} == {"agent"}
        assert await other.seats["agent"].reply([assistant("2")]) == [user("Are you sure?")]


async def test_a_transcript_whose_words_make_the_environments_code_fail_is_the_agents(folder: Path) -> None:
    said = Submission(transcript=(user("What is 1 + 1?"), assistant("2"), user("Are you sure?"), assistant("fail")))
    async with hosted(folder, "talk") as host:
        card = await host.find_task("eval", "eval-1", 0)
        score = await host.score(card, said, seed=0, deadlines=Deadlines())
    assert score.reward == 0.0 and "KeyError" in (score.feedback or "")


@pytest.mark.parametrize("kind", ["fails", "offline"])
async def test_code_that_fails_whatever_is_said_or_for_want_of_a_service_is_a_fault(folder: Path, kind: str) -> None:
    async with hosted(folder, kind) as host, opened(host) as episode:
        with pytest.raises(TaskError):
            await episode.seats["agent"].reply([assistant("2")])


async def asked(kind: str, do: str, judge: str = "refuse", **given: Any) -> Any:
    """What a driver answers."""
    runtime = ForeignRuntime(program(kind, judge))
    try:
        async with runtime.session() as session:
            return await session.ask(do, seconds=10, **given)
    finally:
        runtime.close()


async def test_what_does_not_load_says_why() -> None:
    assert "asks a model itself" in (await asked("keys", "describe"))["refused"]
    assert "OSError: no such thing" in (await asked("crash", "describe"))["refused"]
    assert (await asked("judge", "describe"))["judges"] == ["JudgeRubric"]


async def test_an_environment_that_does_not_load_stops_the_run_with_what_it_said(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no such thing"):
        await Verifiers.start(folder, ForeignRuntime(program("crash")), 10)
    assert str(folder) not in Verifiers.runtimes


async def test_the_same_seed_draws_the_same_numbers(folder: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "?"}]}
    rewards: list[float] = []
    for seed in (1, 1, 2):
        runtime = ForeignRuntime(program("odd"))
        try:
            async with runtime.session() as session:
                await session.ask("begin", seconds=10, row=row, seed=seed)
                await session.ask("answer", seconds=10, message={"content": "x"})
                rewards.append((await session.ask("score", seconds=10, said=[{"content": "x"}]))["reward"])
        finally:
            runtime.close()
    assert rewards[0] == rewards[1] != rewards[2]
    assert await asked("odd", "rows", split="eval", start=1, count=5) == [None]


def project(root: Path, name: str, text: str, *dependencies: str) -> None:
    """An environment's folder."""
    folder = root / name
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\ndependencies = {list(dependencies)!r}\n')
    (folder / f"{name.replace('-', '_')}.py").write_text(text)


def test_what_cannot_be_an_environment_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    project(tmp_path, "not-one", "print('hello')\n")
    project(tmp_path, "a-harness", "import verifiers.v1 as vf\nclass Mine(vf.Harness): ...\n")
    project(tmp_path, "of-git", "def load_environment(): ...\n", "other @ git+https://example.com/other")
    found = find_importer("verifiers").look(ImportSource.of(str(tmp_path)), {})
    reasons = {each.id: each.reasons[0] for each in found}
    assert reasons == {
        "a-harness": "it brings a harness alone, and no tasks",
        "not-one": "it has neither load_environment nor a Taskset",
        "of-git": "pyproject.toml: 'other @ git+https://example.com/other' is no published wheel",
    }


def test_an_environment_runs_on_the_release_that_has_its_interface(tmp_path: Path) -> None:
    project(tmp_path, "old", "def load_environment(): ...\n", "verifiers[ta]>=0.1.8", "nltk")
    project(tmp_path, "pinned", "def load_environment(): ...\n", "verifiers==0.1.9")
    old, pinned = find_envs(tmp_path)
    assert old.requirements(old.kind(), None) == ["verifiers[ta]==0.2.1", "nltk"]
    assert old.requirements(old.kind(), "verifiers==0.1.14") == ["verifiers==0.1.14", "nltk"]
    assert pinned.requirements(pinned.kind(), None) == ["verifiers==0.1.9"]


@pytest.mark.parametrize("settings", [{"rows": "many"}, {"nothing": 1}, {"judge": "mine"}])
def test_a_setting_that_does_not_hold_is_a_clear_error(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        find_importer("verifiers").look(ImportSource.of(str(tmp_path)), settings)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_repository_is_fetched_at_its_commit_and_nothing_of_it_or_of_the_users_git_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, home, elsewhere = tmp_path / "made", tmp_path / "home", tmp_path / "elsewhere"
    for folder in (made / "environments", home, elsewhere):
        folder.mkdir(parents=True)
    project(made / "environments", "one", "print('hello')\n")
    project(elsewhere, "own", "def load_environment(): ...\n")
    (made / "environments" / "link").symlink_to(elsewhere / "own")
    (made / ".gitattributes").write_text("* filter=run\n")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(("git", *words), cwd=made, check=True, capture_output=True)
    said = subprocess.run(("git", "rev-parse", "HEAD"), cwd=made, check=True, capture_output=True, text=True)
    commit = said.stdout.strip()
    ran = tmp_path / "ran"
    for kind in ("smudge", "process"):
        subprocess.run(
            ("git", "config", "--file", home / ".gitconfig", f"filter.run.{kind}", f"env >> {ran}; cat"), check=True
        )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    importer = find_importer("verifiers")
    found = importer.look(ImportSource.of(f"git+file://{made}@{commit}"), {})
    assert {each.id: each.reasons[0] for each in found} == {"one": "it has neither load_environment nor a Taskset"}
    assert not ran.exists()
    with pytest.raises(ConfigError, match="pin a commit"):
        importer.look(ImportSource.of(f"git+file://{made}@main"), {})
    with pytest.raises(HubError, match="fetch"):
        importer.look(ImportSource.of(f"git+file://{made}@{'0' * 40}"), {})
