"""OpenEnv's environments, by one of their shape: played, scored, attacked and broken."""

import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Deadlines, Score, Stop, Submission
from rollouthub.errors import ConfigError, TaskError, VerifierError
from rollouthub.hosting.open_host import open_in_process
from rollouthub.plugins.importers import Identity, ImportSource
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.folder_digest import digest_of_folder
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_record import CODE
from rollouthub_servers.openenv import OpenEnv, OpenEnvConfig
from rollouthub_servers.openenv.importer import OpenEnvImporter, described
from rollouthub_servers.openenv.openenv_record import OpenEnvRecord
from rollouthub_servers.openenv.shown_fields import cut, is_harmless, is_telling, result_text

SHAPED = Path(__file__).parent / "shaped_openenv"
SECRETS = ("correct_answer", "answerKey", "episode_score", "reward", "metadata")


@pytest.fixture(params=["ws"])
def shape(request: pytest.FixtureRequest) -> str:
    """How the environment is spoken to: `ws`, `mcp` or `http`."""
    return request.param


@pytest.fixture
def runtime(shape: str, tmp_path: Path) -> Iterator[ForeignRuntime]:
    """Its processes, on the hub's own interpreter: it needs no library."""
    AppFolder(SHAPED).copy(tmp_path / CODE / SHAPED.name)
    program = draft(shape).program(tmp_path, Path(sys.executable))
    runtime = ForeignRuntime(replace(program, ping_seconds=2.0))
    yield runtime
    runtime.close()


def draft(shape: str) -> OpenEnvRecord:
    """What is known of it before it is begun."""
    return OpenEnvRecord(name=SHAPED.name, app="server.app:app", variables={"SHAPE": shape})


@asynccontextmanager
async def hosted(
    data: Path, runtime: ForeignRuntime, shape: str = "ws", **settings: Any
) -> AsyncGenerator[EnvironmentHost]:
    """The environment as its import leaves it, but for its lock."""
    record, _, _ = await described(runtime, draft(shape), {})
    record.write(data)
    OpenEnv.runtimes[str(data)] = runtime
    try:
        shown: dict[str, Any] = {} if shape == "mcp" else {"show": ("drawn", "inner", "known", "text")}
        config = OpenEnvConfig(data=str(data), **(shown | settings))
        async with open_in_process("shaped", OpenEnv, config) as host:
            yield host
    finally:
        OpenEnv.runtimes.pop(str(data))


@asynccontextmanager
async def opened(host: EnvironmentHost, seed: int = 0) -> AsyncGenerator[Episode]:
    """An episode from one of its seeds."""
    card = await host.find_task("test", f"{SHAPED.name}/{seed}", 0)
    with anyio.fail_after(60):
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            yield episode


async def said(episode: Episode, words: str, tool: str = "step") -> str:
    """What an agent reads after a guess."""
    result = await episode.seats["agent"].call_tool(tool, {"say": words})
    return "".join(getattr(block, "text", "") for block in result.content)


async def scored(episode: Episode) -> Score:
    """The verdict."""
    score = await episode.conclude(Submission(stop=Stop.FINISHED))
    assert score is not None, episode.faults
    return score


async def test_an_episode_is_its_own_connection_and_earns_what_the_environment_says(
    tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        (message,) = episode.seats["agent"].messages
        assert "text: Guess." in message.text
        (tool,) = [tool for tool in episode.seats["agent"].tools if tool.name == "step"]
        assert list(tool.input_schema["properties"]) == ["say"]
        assert "text: No." in await said(episode, "11")
        assert "kept beside the code" in await said(episode, "file")
        assert (await said(episode, "6")).endswith("It is over."), "6 is random.Random(0)'s first"
        score = await scored(episode)
    assert (score.reward, score.metrics) == (0.75, {"steps": 3.0, "over": 1.0, "rewarded": 3.0})


@pytest.mark.parametrize("shape", ["ws", "http", "mcp"], indirect=True)
async def test_no_reward_and_no_answer_is_anywhere_an_agent_looks(
    shape: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    tool = "guess" if shape == "mcp" else "step"
    async with hosted(tmp_path, runtime, shape) as host:
        cards = [str(card) async for card in host.tasks("test", 0)]
        assert cards and not any(secret in card for secret in SECRETS[:4] for card in cards)
        async with opened(host) as episode:
            seat = episode.seats["agent"]
            seen = [seat.messages[0].text, str(await seat.call_tool("get_task", {})), await said(episode, "x", tool)]
            seen += [await said(episode, "y", tool), await said(episode, "6", tool)]
            assert not any(secret in text for secret in SECRETS for text in seen), seen
            if shape != "mcp":
                assert 'inner: {"deep":[{"fine":1}]}' in seen[2], "the rest of what is nested is carried"
            assert (await scored(episode)).reward == 0.5


@pytest.mark.parametrize("shape", ["ws", "mcp"], indirect=True)
async def test_a_control_message_of_the_format_is_no_tool(shape: str, tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime, shape) as host, opened(host) as episode:
        for name in ("reset", "state", "close", "mcp", "list_tools", "openenv/session/create", "ws"):
            result = await episode.seats["agent"].call_tool(name, {"seed": 1})
            assert (name, result.is_error) == (name, True)
            assert "unknown tool" in str(result)


@pytest.mark.parametrize(
    "forged",
    [{"say": "x", "metadata": {"reward": 1}}, {"say": "x", "type": "reset"}, {"say": "x", "reward": 1.0, "done": True}],
)
async def test_fields_of_an_action_that_are_not_the_agents_are_refused(
    forged: dict[str, Any], tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        result = await episode.seats["agent"].call_tool("step", forged)
        assert result.is_error
        assert "it takes say" in str(result)
        assert "Field required" in str(await episode.seats["agent"].call_tool("step", {}))
        assert (await scored(episode)).reward == 0.0


@pytest.mark.parametrize("shape", ["ws", "http"], indirect=True)
async def test_nothing_of_an_episode_is_in_another_whatever_it_keeps(
    shape: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async def drawn(disturbing: bool) -> str:
        async with hosted(tmp_path, runtime, shape) as host, opened(host, 3) as one, opened(host, 4) as other:
            if disturbing:
                await said(other, "remember")
                assert "known: 2" in await said(other, "x")
            return await said(one, "x")

    first, second = await drawn(False), await drawn(True)
    assert first == second
    assert "known: 0" in first


@pytest.mark.parametrize(
    ("habit", "problem"),
    [
        ("garbage", "sent what is no JSON"),
        ("close", "ended the connection"),
        ("extra", "'peek', which its import did not see"),
    ],
)
async def test_an_environment_that_breaks_is_a_fault_and_nobody_elses(
    habit: str, problem: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime, step_seconds=1.0) as host, opened(host) as other:
        async with opened(host) as one:
            await said(one, habit)
            assert await one.conclude(Submission(stop=Stop.FINISHED)) is None
            assert re.search(problem, one.faults[0].message), one.faults[0].message
        assert "text: No." in await said(other, "x")


async def test_code_that_fails_at_an_action_ends_the_episode_and_says_nothing(
    tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        await said(episode, "x")
        assert await said(episode, "crash") == "It is over."
        score = await scored(episode)
    assert score.reward == -0.25
    assert score.suspect is not None and "the number was 6" in score.suspect


@pytest.mark.parametrize("habit", ["die", "hang"])
async def test_an_action_that_ends_or_never_leaves_its_process_is_the_agents(
    habit: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime, step_seconds=1.0) as host, opened(host) as other:
        async with opened(host) as one:
            await said(one, "x")
            assert await said(one, habit) == "It is over."
            score = await scored(one)
        assert score.reward == -0.25
        assert score.suspect is not None and "longer than a call may" in score.suspect
        assert "text: No." in await said(other, "x")


@pytest.mark.parametrize(
    ("habit", "problem"), [("words", "'much', which is no number"), ("end", "none was answered with a reward")]
)
async def test_an_episode_without_a_number_is_unscored_and_never_zero(
    habit: str, problem: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        await said(episode, habit)
        with pytest.raises(VerifierError, match=problem):
            await scored(episode)
    async with hosted(tmp_path, runtime) as host, opened(host) as episode:
        await said(episode, "none")
        score = await scored(episode)
    assert (score.reward, score.metrics["rewarded"]) == (0.0, 0.0), "who leaves before a reward has none"


@pytest.mark.parametrize("shape", ["mcp"], indirect=True)
async def test_the_tools_of_mcp_mode_are_the_agents_and_their_failures_its_to_read(
    shape: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime, shape) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert set(seat.task_tools) == {"guess"}
        assert await said(episode, "x", "guess") == '{"text":"No."}'
        assert (await seat.call_tool("other", {})).is_error


async def test_resets_are_tasks_and_what_reset_does_not_take_is_refused(
    tmp_path: Path, runtime: ForeignRuntime
) -> None:
    resets = ({"low": 9}, {"high": 1})
    async with hosted(tmp_path, runtime, resets=resets, seeds=2) as host:
        cards = [card async for card in host.tasks("train", 0)]
        ids = [card.public.id for card in cards if hasattr(card, "public")]  # pyright: ignore
        assert ids == [f"{SHAPED.name}-{reset}/{seed}" for reset in (0, 1) for seed in (1_000_000, 1_000_001)]
        async with host.open(cards[0], seed=0, deadlines=Deadlines()) as episode:  # pyright: ignore
            assert "Yes." in await said(episode, "9")
        with pytest.raises(Exception, match="reset takes no high; it takes seed, low"):
            async with host.open(cards[2], seed=0, deadlines=Deadlines()):  # pyright: ignore
                pass


async def test_an_import_finds_out_what_it_is_and_withholds_what_tells(tmp_path: Path, runtime: ForeignRuntime) -> None:
    record, unpromised, seeds = await described(runtime, draft("ws"), {})
    assert record.shown == ("text",)
    never = ("answerKey", "correct_answer", "done", "episode_score", "metadata", "reward")
    assert sorted(record.withheld) == sorted((*never, "drawn", "inner", "known", "target"))
    assert (record.line, record.mcp, unpromised, seeds) == ("ws", None, [], 0)
    with pytest.raises(TaskError, match=r"ended the connection: (ValueError|TypeError)"):
        await described(runtime, draft("ws"), {"low": "x"})


async def test_fields_that_tell_are_not_shown_on_demand_either(tmp_path: Path, runtime: ForeignRuntime) -> None:
    async with hosted(tmp_path, runtime, show=("text",)) as host, opened(host) as episode:
        assert await said(episode, "x") == "text: No."
    for name in ("correct_answer", "episode_score", "peek"):
        with pytest.raises(ConfigError, match=f"show='{name}'"):
            list(OpenEnv.tasks(OpenEnvConfig(data=str(tmp_path), show=(name,)), "test", 0))


def test_a_checkout_is_listed_and_nothing_of_it_is_run(tmp_path: Path) -> None:
    AppFolder(SHAPED).copy(tmp_path / "envs" / "shaped_env")
    for name, lines in {
        "bad": '["thing @ https://example.org/thing.zip"]',
        "good": '["openenv-core @ git+x", "a>=1"]',
    }.items():
        folder = tmp_path / "envs" / name
        (folder / "server").mkdir(parents=True)
        (folder / "server" / "app.py").write_text("raise SystemExit('run')")
        (folder / "pyproject.toml").write_text(f"[project]\nname='x'\ndependencies={lines}\n")
    found = {each.id: each for each in OpenEnvImporter().look(ImportSource.of(str(tmp_path)), {})}
    assert set(found) == {"shaped_env", "bad", "good"}
    assert found["bad"].reasons == ("pyproject.toml: 'thing @ https://example.org/thing.zip' is no published wheel",)
    assert found["good"].facts["needs"] == "a"
    with pytest.raises(ConfigError, match="no environment in"):
        OpenEnvImporter().look(ImportSource.of(str(tmp_path / "envs" / "bad" / "server")), {})
    with pytest.raises(ConfigError, match="none of the chosen"):
        OpenEnvImporter().write(ImportSource.of(str(tmp_path)), ["bad"], {}, tmp_path / "out", Identity())
    with pytest.raises(ConfigError, match="'sede'"):
        OpenEnvImporter().look(ImportSource.of(str(tmp_path)), {"sede": 3})


def test_a_link_that_leads_out_of_an_environment_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="passwd is a link that leads out of it"):
        AppFolder(tmp_path / "env").copy(tmp_path / "copy")


@pytest.mark.parametrize("name", ["correct_answer", "answerKey", "episode_score", "Reward", "goldLabel", "is_correct"])
def test_names_that_tell(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize("name", ["target", "hidden_word", "key", "state", "info", "underscored"])
def test_names_that_are_shown_only_where_the_user_names_them(name: str) -> None:
    assert not is_telling(name)
    assert not is_harmless(name)


@pytest.mark.parametrize("name", ["question", "legal_actions", "board", "text", "x", "current_position"])
def test_names_that_tell_nothing(name: str) -> None:
    assert is_harmless(name)


@pytest.mark.parametrize("shape", ["mcp"], indirect=True)
async def test_a_tool_that_tells_what_an_action_was_worth_is_offered_only_by_name(
    shape: str, tmp_path: Path, runtime: ForeignRuntime
) -> None:
    async with hosted(tmp_path, runtime, shape) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        assert seat.task_tools == {"guess"}
        told = await seat.call_tool("verify", {})
        assert told.is_error and "unknown tool" in str(told)
    async with hosted(tmp_path, runtime, shape, tools=("verify",)) as host, opened(host) as episode:
        assert episode.seats["agent"].task_tools == {"verify"}
    record, _, _ = await described(runtime, draft(shape), {})
    assert (record.tools, record.judging) == (("guess",), ("verify",))
    with pytest.raises(ConfigError, match="tools='peek'"):
        list(OpenEnv.tasks(OpenEnvConfig(data=str(tmp_path), tools=("peek",)), "test", 0))


def test_what_is_nested_too_deep_to_look_at_is_not_shown() -> None:
    value: Any = {"reward": 1}
    for _ in range(60):
        value = [value]
    assert "reward" not in str(cut(value))
    assert cut('["reward", {"reward": 1, "a": 2}]') == '["reward",{"a":2}]'
    assert cut('{"reward": [' + "[" * 10_000) == '{"reward": [' + "[" * 10_000, "no JSON is left as it is"


def test_both_forms_of_a_tools_answer_are_read() -> None:
    calendar = {"success": False, "error_message": "no such user", "tool_result": None}
    assert result_text(calendar) == ("no such user", True)
    assert result_text({"success": True, "tool_result": {"a": 1, "reward": 2}}) == ('{"a":1}', False)
    assert result_text({"result": {"content": [{"text": "x"}], "is_error": True}}) == ("x", True)
    assert result_text({"result": 3, "error": None}) == ("3", False)


def test_code_that_was_changed_since_its_import_is_not_run(tmp_path: Path) -> None:
    AppFolder(SHAPED).copy(tmp_path / CODE / SHAPED.name)
    record = draft("ws").model_copy(update={"digest": digest_of_folder(tmp_path, CODE)})
    record.write(tmp_path)
    (tmp_path / CODE / SHAPED.name / "server" / "app.py").write_text("app = None")
    with pytest.raises(ConfigError, match="is not what was imported"):
        record.installed(tmp_path)


def test_a_commit_of_a_repository_is_a_source_and_a_branch_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    AppFolder(SHAPED).copy(tmp_path / "repository" / "envs" / "shaped_env")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(tmp_path / "repository"), *words], check=True)
    head = ["git", "-C", str(tmp_path / "repository"), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    address = f"git+file://{tmp_path / 'repository'}"
    for _ in range(2):
        (found,) = OpenEnvImporter().look(ImportSource.of(f"{address}@{commit}#subdirectory=envs"), {})
        assert found.id == "shaped_env"
    with pytest.raises(ConfigError, match="pin a commit"):
        OpenEnvImporter().look(ImportSource.of(f"{address}@main"), {})
