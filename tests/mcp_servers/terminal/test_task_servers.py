"""MCP servers that a task names: their tools are the agent's, with its rights, and nothing of the hub's is behind."""

from pathlib import Path

import pytest

from rollouthub.errors import TaskError
from rollouthub.messages import assistant
from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.harbor import load_task
from rollouthub_servers.terminal.unsupported_features import refusals
from tests.mcp_servers.containers import Open

SERVER = Path(__file__).parent / "mcp_in_a_task.py"
STDIO = (
    '[[environment.mcp_servers]]\nname = "notes"\ntransport = "stdio"\ncommand = "python3"\nargs = ["/srv/server.py"]\n'
)
HTTP = (
    '[[environment.mcp_servers]]\nname = "desk"\ntransport = "streamable-http"\nurl = "http://desk:8000/mcp"\n'
    'headers = {X-Key = "${DESK_KEY}"}\n'
)
OPEN = HTTP.replace('headers = {X-Key = "${DESK_KEY}"}\n', "")
SSE = '[[environment.mcp_servers]]\nname = "desk"\nurl = "http://desk:8000/sse"\n'
COMPOSE = """\
services:
  desk:
    build: .
    command: ["python3", "/srv/server.py", "--http", "8000"]
    environment: {NOTES: /notes.txt}
"""


def made(
    folder: Path, servers: str, check: str = "true", compose: str | None = None, agent: str = ""
) -> TerminalConfig:
    """A task with servers."""
    files = {
        "instruction.md": "Keep a note.",
        "environment/Dockerfile": "FROM python:3.11\nCOPY server.py /srv/server.py\nWORKDIR /app\n",
        "environment/server.py": SERVER.read_text(),
        "tests/test.sh": f"if {check}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
        "task.toml": f'[agent]\n{agent}[environment]\nnetwork_mode = "no-network"\nmemory_mb = 256\n{servers}',
    }
    if compose is not None:
        files["environment/docker-compose.yaml"] = compose
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TerminalConfig(data=str(folder))


async def test_a_server_in_the_agents_container_has_the_agents_rights_and_its_work_is_graded(
    play: Open, tmp_path: Path
) -> None:
    config = made(tmp_path, STDIO, 'grep -qx works "/tmp/notes.txt"', agent='user = "nobody"\n')
    async with play(Terminal, config) as player:
        seat = player.episode.seats["agent"]
        names = {tool.name for tool in seat.tools}
        assert {"whoami", "note", "notes_bash", "bash"} <= names
        assert "uid 65534" in await player.call("whoami")
        assert "notes" not in await player.bash("echo the hub has this one")
        assert "bash: uid" in await player.call("notes_bash")
        assert await player.call("note", text="works") == "kept"
        score = await player.end()
    assert score.reward == 1.0, score.feedback


async def test_a_tool_called_verify_gains_nothing_and_a_server_that_ends_is_a_tool_error(
    play: Open, tmp_path: Path
) -> None:
    async with play(Terminal, made(tmp_path, STDIO, "false")) as player:
        assert "verify: uid" in await player.call("verify")
        result = await player.episode.seats["agent"].call_tool("quit", {})
        assert result.is_error
        assert "ended" in await player.call("whoami")
        assert "well" in await player.bash("echo well")
        assert (await player.end()).reward == 0.0


async def test_a_server_beside_the_agents_container_is_called_with_its_headers(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", "only-for-the-desk")
    config = made(tmp_path, HTTP, "true", COMPOSE).model_copy(update={"passes": ("DESK_KEY",)})
    async with play(Terminal, config) as player:
        assert "uid 0, pid" in await player.call("whoami")
        assert "key only-for-the-desk" in await player.call("whoami")
        assert "kept" in await player.call("note", text="works")
        assert "No such file" in await player.bash("cat /notes.txt")
        assert "only-for-the-desk" not in await player.bash("env; cat /proc/*/environ")
        assert (await player.end()).reward == 1.0


async def test_a_server_of_the_older_transport_which_is_the_formats_default_is_called(
    play: Open, tmp_path: Path
) -> None:
    async with play(Terminal, made(tmp_path, SSE, "true", COMPOSE)) as player:
        assert "uid 0, pid" in await player.call("whoami")
        assert "uid 0, pid" in await player.call("verify")


async def test_a_server_in_the_agents_container_is_started_anew_for_each_step(play: Open, tmp_path: Path) -> None:
    steps = "".join(f"[[steps]]\nname = '{name}'\n" for name in "ab")
    made(tmp_path, STDIO + steps)
    for name in "ab":
        (tmp_path / "steps" / name).mkdir(parents=True)
        (tmp_path / "steps" / name / "instruction.md").write_text("Go on.")
    async with play(Terminal, TerminalConfig(data=str(tmp_path))) as player:
        before = await player.call("whoami")
        assert await player.episode.seats["agent"].reply((assistant("done"),)) is not None
        after = await player.call("whoami")
        assert before != after
        assert (await player.end()).reward == 1.0


async def test_a_server_that_does_not_start_is_the_tasks_fault_with_what_it_said(play: Open, tmp_path: Path) -> None:
    broken = STDIO.replace("/srv/server.py", "/srv/nothing.py")
    with pytest.raises(TaskError, match=r"(?s)environment.mcp_servers\]\] 'notes'.*nothing.py"):
        async with play(Terminal, made(tmp_path, broken)):
            pass


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (HTTP, "DESK_KEY"),
        (OPEN.replace("http://desk:8000/mcp", "http://example.com/mcp"), "url = 'http://example.com/mcp'"),
        (OPEN.replace("http://desk", "https://desk"), "url = 'https://desk:8000/mcp'"),
        (STDIO + STDIO, "two servers have this name"),
    ],
    ids=["key", "elsewhere", "https", "twice"],
)
def test_a_server_that_cannot_be_had_is_refused_by_its_field(tmp_path: Path, servers: str, said: str) -> None:
    config = made(tmp_path, servers, compose=COMPOSE)
    (reason,) = refusals(load_task("made", tmp_path), config, {})
    assert reason.startswith("task.toml: [[environment.mcp_servers]]")
    assert said in reason
