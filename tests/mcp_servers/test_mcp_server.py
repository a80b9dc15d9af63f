"""An MCP server nobody wrote for the hub, as an environment: what it is given, what it is kept from."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Submission, TaskError
from rollouthub.errors import ConfigError
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from tests.cli.conftest import warm
from tests.mcp_servers.foreign import CANARY, SERVER, TASK, VERIFY, call, hosted, is_alive, make, opened, playing, text


def run(folder: Path, *arguments: str) -> Any:
    done = warm().run(["run", *arguments, "--json", "-q"], folder, os.environ, 180)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_oracle_reaches_the_maximum_and_null_the_floor(tmp_path: Path) -> None:
    make(tmp_path / "notes")
    assert run(tmp_path, "notes/env.toml", "-a", "oracle", "--repeats", "2")["mean_reward"] == 1.0
    assert run(tmp_path, "./notes", "-a", "null")["mean_reward"] == 0.0


async def test_a_world_is_fresh_and_gone_with_its_episode(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host:
        async with opened(host) as episode:
            await call(episode, "notes_write", path="note.txt", text=CANARY)
            scratch = Path(json.loads(text(await call(episode, "look")))["cwd"])
            assert (scratch / "note.txt").is_file()
            assert (await episode.verify(Submission())).reward == 1.0
        assert not scratch.parent.exists()
        async with opened(host) as episode:
            assert (await episode.verify(Submission())).reward == 0.0
        assert episode.faults == []


async def test_a_server_is_told_nothing_of_the_hub_or_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    file = make(tmp_path / "notes", server={"env": {"MODE": "{task.topic}-{seed}-{task.id}"}})
    async with playing(file, seed=7) as episode:
        seen = json.loads(text(await call(episode, "look")))
    assert seen["env"]["MODE"] == "birds-7-one"
    known = {
        "PATH",
        "LANG",
        "HOME",
        "TMPDIR",
        "MODE",
        "ROLLOUTHUB_EPISODE",
        "LC_CTYPE",
    }  # the last is Python's own doing
    assert set(seen["env"]) <= known
    assert seen["env"]["HOME"] != os.environ["HOME"]
    assert CANARY not in json.dumps(seen)
    assert str(tmp_path) not in json.dumps(seen)
    assert seen["greeted"]["capabilities"] == {}


async def test_agents_read_the_task_and_the_tools_alone(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes")) as host, opened(host) as episode:
        seat = episode.seats["agent"]
        shown = " ".join(str(part) for part in (*seat.messages, *seat.tools, host.info.model_dump_json()))
        assert CANARY not in shown
        assert "poison" not in shown
        assert str(tmp_path) not in shown
        write = seat.tools[0]
        assert write.name == "notes_write"
        assert write.description == "Write a note below {workdir}."
        assert write.meta is None
        result = await call(episode, "notes_write", path="a", text="b")
        assert "_meta" not in result.model_dump_json(by_alias=True, exclude_none=True)


async def test_wrong_arguments_are_the_agents_to_hear_of(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes")) as episode:
        unknown = await call(episode, "notes_write", path="a", text="b", mode="w")
        wrong = await call(episode, "notes_write", path=1, text="b")
        refused = await call(episode, "refuse")
        failed = await call(episode, "fail")
        missing = await call(episode, "notes.write")
    assert [result.is_error for result in (unknown, wrong, refused, failed, missing)] == [True] * 5
    assert "mode" in text(unknown)
    assert text(wrong) == "argument 'path': 1 is not of type 'string'"
    assert text(refused) == "not like this"
    assert text(failed) == "no such note"
    assert "unknown tool" in text(missing)
    assert episode.faults == []


async def test_a_server_that_asks_for_a_model_is_refused(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes")) as episode:
        assert "error" in json.loads(text(await call(episode, "ask")))
    assert episode.faults == []


async def test_a_long_result_is_cut_and_says_so(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes", server={"result_bytes": 2000})) as episode:
        words = text(await call(episode, "long"))
    assert len(words) < 2200
    assert words.endswith("is the most]")


async def test_a_banner_on_stdout_is_let_pass(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes", "--banner")) as episode:
        assert text(await call(episode, "notes_write", path="a", text="b")) == "written"
    assert episode.faults == []


async def test_a_process_that_flees_its_session_is_dead_before_the_verdict(tmp_path: Path) -> None:
    async with playing(make(tmp_path / "notes")) as episode:
        pid = int(text(await call(episode, "spawn", path="pid", text="note.txt")))
        assert is_alive(pid)
        await episode.seal()
        assert not is_alive(pid)
        await episode.verify(Submission())


async def test_seed_files_lie_in_the_scratch_folder(tmp_path: Path) -> None:
    own = TASK | {"id": "two", "files": {"deep/note.md": "mine"}}
    folder = TASK | {"id": "three", "files": "others"}
    file = make(tmp_path / "notes", server={"files": "seeds"}, tasks=[TASK, own, folder])
    for name in ("seeds", "others"):
        (tmp_path / "notes" / name).mkdir()
        (tmp_path / "notes" / name / f"{name}.txt").write_text("hello")
    found: list[set[str]] = []
    async with hosted(file) as host:
        for task_id in ("one", "two", "three"):
            async with opened(host, task_id) as episode:
                seen = json.loads(text(await call(episode, "look")))
                found.append({path.rpartition("/work/")[2] for path in seen["files"] if "/work/" in path})
    assert found == [{"seeds.txt"}, {"seeds.txt", "deep", "deep/note.md"}, {"others.txt"}]


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/out.txt"])
async def test_a_seed_file_outside_the_scratch_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="would not lie in the scratch folder"):
        async with hosted(make(tmp_path / "notes", tasks=[TASK | {"files": {path: "x"}}])):
            pass


async def test_a_seed_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    file = make(tmp_path / "notes", server={"files": "seeds"})
    (tmp_path / "notes" / "seeds").mkdir()
    (tmp_path / "notes" / "seeds" / "answers").symlink_to("../tasks.jsonl")
    with pytest.raises(ConfigError, match="leads out"):
        async with hosted(file):
            pass


async def test_prompt_and_reference_may_name_the_scratch_folder(tmp_path: Path) -> None:
    call_it = {"name": "notes_write", "arguments": {"path": "{workdir}/note.txt", "text": CANARY}}
    task = TASK | {"prompt": "Write into {workdir}.", "reference": [call_it]}
    async with playing(make(tmp_path / "notes", tasks=[task])) as episode:
        workdir = json.loads(text(await call(episode, "look")))["cwd"]
        assert episode.seats["agent"].messages[0].text == f"Write into {workdir}."
        reference = await episode.reference()
        assert json.loads(reference[0].tool_requests[0].arguments)["path"] == f"{workdir}/note.txt"


async def test_only_the_wanted_tools_are_there(tmp_path: Path) -> None:
    server = {"tools": ["notes.write", "look"], "hidden_tools": ["look"]}
    async with playing(make(tmp_path / "notes", server=server, submit=False)) as episode:
        assert [tool.name for tool in episode.seats["agent"].tools] == ["notes_write", "get_task"]
        assert "unknown tool" in text(await call(episode, "look"))


@pytest.mark.parametrize(
    ("arguments", "server", "said"),
    [
        ((), {"command": ["no-such-program"]}, r"'no-such-program' cannot be started: No such file.*\{folder\}/FILE"),
        ((), {"command": ["sh", "-c", "echo dead >&2; exit 4"]}, "ended with exit code 4; its stderr ends: dead"),
        (("--silent",), {"start_seconds": 4}, "within 4 s; its stderr ends: notes server is up"),
        ((), {"tools": ["notes.wriet"]}, "has no tool 'notes.wriet'; did you mean 'notes.write'"),
        ((), {"files": "nowhere"}, "server.files = 'nowhere': there is no such folder"),
        ((), {"env": {"A": "{task.colour}"}}, "has no 'colour' in its metadata.*it has: topic"),
        ((), {"url": "http://127.0.0.1:9/mcp"}, "the server failed|closed the connection|ConnectError"),
        ((), {"url": "http://127.0.0.1:9/mcp", "token_variable": "NO_TOKEN"}, "'NO_TOKEN': the environment variable"),
    ],
)
async def test_what_cannot_be_played_is_refused_before_the_run(
    tmp_path: Path, arguments: tuple[str, ...], server: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        async with hosted(make(tmp_path / "notes", *arguments, server=server)):
            pass


async def test_a_row_that_is_wrong_says_where(tmp_path: Path) -> None:
    file = make(
        tmp_path / "notes", tasks=[TASK, {"prompt": "x", "anser": 1}, {"prompt": 3}, {"prompt": "x", "reference": [4]}]
    )
    async with hosted(file) as host:
        errors = [str(card.error) async for card in host.tasks("test", 0) if isinstance(card, BadRow)]
    assert [error.partition("tasks.jsonl:")[2].partition("; ")[0].partition(",")[0] for error in errors] == [
        "2: there is no key 'anser'",
        "3: prompt.str: Input should be a valid string",
        '4: reference step 1 must be a text or {"name": …',
    ]


async def test_the_digest_changes_with_the_verifier_and_not_with_runs(tmp_path: Path) -> None:
    file = make(tmp_path / "notes")
    digests: list[str] = []
    for change in ("runs/run.db", "verify.py"):
        async with hosted(file) as host:
            digests.append(host.info.digest)
        (tmp_path / "notes" / change).parent.mkdir(exist_ok=True)
        (tmp_path / "notes" / change).write_text(VERIFY + "\n")
    async with hosted(file) as host:
        digests.append(host.info.digest)
    assert digests[0] == digests[1] != digests[2]


async def test_no_more_servers_run_than_allowed(tmp_path: Path) -> None:
    async with hosted(make(tmp_path / "notes", server={"concurrency": 1})) as host, opened(host):
        with pytest.raises(TaskError, match="setup of task 'one' was not done"):
            async with opened(host, setup=0.3):
                pass


MODERN = """
from mcp.server import MCPServer

server = MCPServer("words")


@server.tool()
def count(text: str) -> int:
    return len(text.split())


server.run("stdio")
"""


async def test_a_server_of_the_newer_protocol_is_spoken_to_in_it(tmp_path: Path) -> None:
    file = make(tmp_path / "words", server={"command": ["{python}", "{folder}/server.py"]})
    file.with_name("server.py").write_text(MODERN)
    environment: Any = find_environment(str(file)).environment
    async with open_in_process("words", environment, environment.config_type()) as host, opened(host) as episode:
        assert environment.era.supported_versions == ["2026-07-28"]
        result = await call(episode, "count", text="one two three")
        assert (text(result), result.structured_content) == ("3", {"result": 3})
        assert (await call(episode, "count", text=3)).is_error
    assert episode.faults == []


@pytest.fixture
def image() -> str:
    """A container image with `python3`, named by ROLLOUTHUB_TEST_IMAGE; skipped aloud where no engine has it."""
    name = os.environ.get("ROLLOUTHUB_TEST_IMAGE", "python:3.11-slim")
    try:
        asked = subprocess.run(["docker", "image", "inspect", name], capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"there is no container engine: {error}")
    if asked.returncode:
        pytest.skip(f"no container engine has the image {name!r}: {asked.stderr.strip()}")
    return name


async def test_a_server_in_a_container_sees_its_scratch_folder_alone(tmp_path: Path, image: str) -> None:
    file = make(tmp_path / "notes", server={"image": image, "args": ["python3", "/work/server.py"], "files": "seeds"})
    file.with_name("seeds").mkdir()
    (file.with_name("seeds") / "server.py").write_text(SERVER.read_text())
    async with hosted(file) as host, opened(host) as episode:
        seen = json.loads(text(await call(episode, "look")))
        assert seen["cwd"] == "/work"
        assert str(tmp_path) not in json.dumps(seen)
        assert not (await call(episode, "notes_write", path="note.txt", text=CANARY)).is_error
        assert (await episode.verify(Submission())).reward == 1.0
    assert episode.faults == []
    left = await anyio.run_process(["docker", "ps", "--all", "--quiet", "--filter", "label=rollouthub.episode"])
    assert left.stdout == b""


async def test_without_a_container_engine_an_image_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make(tmp_path / "notes", server={"image": "some/image"})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="needs a container engine, and there is no `docker` on the PATH; install"):
        async with hosted(file):
            pass


@pytest.fixture
def service() -> Iterator[str]:
    """The foreign server over HTTP, with a verifier; its address."""
    with subprocess.Popen([sys.executable, SERVER, "--http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


async def test_a_running_server_and_a_verifier_service_make_an_environment(
    tmp_path: Path, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "open sesame")
    file = make(
        tmp_path / "notes",
        server={"url": f"{service}/mcp", "token_variable": "NOTES_TOKEN"},
        verifier={"url": f"{service}/v1/verify", "token_variable": "NOTES_TOKEN", "transcripts": True},
    )
    async with hosted(file) as host:
        async with opened(host) as episode:
            assert text(await call(episode, "fail")) == "no such note"
            assert (await episode.verify(Submission(answer=CANARY))).passed
            assert episode.faults == []
        card = await host.find_task("test", "one", 0)
        assert (
            await host.score(card, Submission(transcript=(assistant("?"),)), seed=0, deadlines=Deadlines())
        ).reward == 0.0
