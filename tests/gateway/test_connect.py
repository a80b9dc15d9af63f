"""`hub connect`: an app starts it, talks MCP on its stdin and stdout, and leaves in its own way."""

import json
import os
import shlex
import signal
import tomllib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from envhub import Outcome, Rollout, Stop
from envhub.cli.main import app
from envhub.cli.runs import user_store
from envhub.gateway.app_configs import App
from envhub.hosting.episode import CLOSED
from envhub.store import find_runs, open_run
from envhub.store.facts import RunInfo
from tests.serving.desk import LEGACY, said
from tests.serving.processes import Started, started

WORLD = '''
import asyncio
from collections.abc import Iterator
from envhub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


class World(Environment[EnvironmentConfig]):
    """Waits, and takes its time to judge."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterator[Task]:
        yield Task(Public(id="1", prompt="Say yes."), Secret(answer="canary-answer"))

    async def setup(self) -> None:
        print("printed by the environment")

    @tool
    async def wait(self) -> str:
        """Never ends."""
        await asyncio.sleep(3600)
        return ""

    @tool
    async def note(self) -> str:
        """Ends."""
        return "noted"

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=1.0 if submission.answer == "yes" else 0.5, feedback="canary-answer")
'''


def records(data: Path) -> list[Rollout]:
    """What the user's store holds."""
    found: list[Rollout] = []
    for run in find_runs(user_store({"XDG_DATA_HOME": str(data)})):
        assert isinstance(run, RunInfo), run
        with open_run(run.directory) as reader:
            found += [reader.rollout(row.rollout_id) for row in reader.summaries()]
    return found


async def record(data: Path) -> Rollout:
    """The only record, once it is there: the process that keeps it outlives the one that an app started."""
    with anyio.fail_after(20):
        while not (found := records(data)):
            await anyio.sleep(0.02)
    return found[0]


# --- what is printed, started as it says ------------------------------------------------------------------------------


def _servers(key: str, text: str) -> list[str]:
    [server] = json.loads(text)[key].values()
    assert server.get("type", "stdio") == "stdio"
    return [server["command"], *server["args"]]


def _codex(text: str) -> list[str]:
    [server] = tomllib.loads(text)["mcp_servers"].values()
    return [server["command"], *server["args"]]


def _opencode(text: str) -> list[str]:
    [server] = json.loads(text)["mcp"].values()
    assert (server["type"], server["enabled"]) == ("local", True)
    return server["command"]


def _claude_code(text: str) -> list[str]:
    words = shlex.split(text)
    assert words[:5] == ["claude", "mcp", "add", "--transport", "stdio"]
    return words[words.index("--") + 1 :]


READ: dict[App, Callable[[str], list[str]]] = {
    App.CLAUDE: lambda text: _servers("mcpServers", text),
    App.CLAUDE_CODE: _claude_code,
    App.CURSOR: lambda text: _servers("mcpServers", text),
    App.CODEX: _codex,
    App.VSCODE: lambda text: _servers("servers", text),
    App.OPENCODE: _opencode,
    App.INSPECTOR: lambda text: _servers("mcpServers", text),
}
"""How each app reads its configuration: the command it starts."""


def printed(name: App, *arguments: str) -> list[str]:
    """The command in a printed configuration."""
    done = CliRunner().invoke(app, ["connect", *arguments, "--print-config", name])
    assert done.exit_code == 0, done.output
    return READ[name](done.stdout)


def test_every_app_is_told_to_start_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", "/data home")
    given = ["./dice.py", "--task", "a b", "--set", "size=3", "--seed", "7", "--max-turns", "9"]
    [command] = {tuple(printed(name, *given)) for name in App}
    assert Path(command[0]).is_absolute()
    assert os.access(command[0], os.X_OK)
    assert command[-12:] == (
        *("connect", f"{tmp_path}/dice.py", "--set", "size=3", "--task", "a b"),
        *("--seed", "7", "--max-turns", "9", "-o", "/data home/envhub/runs"),
    )


async def play(command: list[str], data: Path, mode: Literal["auto", "legacy"]) -> None:
    """A whole episode of `arithmetic`, as an app plays it."""
    server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ})
    async with Client(server, mode=mode) as client:
        assert client.instructions is not None
        question = client.instructions.partition("What is ")[2].partition("?")[0]
        tools = await client.list_tools()
        assert [tool.name for tool in tools.tools] == ["calculate", "get_task", "submit"]
        answer = said(await client.call_tool("calculate", {"expression": question}))
        assert said(await client.call_tool("submit", {"answer": answer})) == "Submitted."
        for _ in range(2):
            assert said(await client.call_tool("submit", {"answer": answer})) == CLOSED
        assert (await client.list_tools()).tools == tools.tools
    rollout = await record(data)
    assert (rollout.agent.name, rollout.reward, rollout.stop) == ("desktop", 1.0, Stop.SUBMITTED)
    assert rollout.answer == answer


@pytest.mark.parametrize(("name", "mode"), [(App.CLAUDE, "legacy"), (App.CODEX, "auto")])
async def test_what_is_printed_plays_an_episode(
    name: App, mode: Literal["auto", "legacy"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    await play(printed(name, "arithmetic", "--set", "terms=2"), tmp_path, mode)


@pytest.mark.live
@pytest.mark.parametrize("name", App)
async def test_every_printed_form_plays_an_episode(name: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    await play(printed(name, "arithmetic", "--set", "terms=2"), tmp_path, "auto")


# --- apps that leave in their own way ---------------------------------------------------------------------------------


class Raw:
    """A client of the handshake era that knows lines alone."""

    def __init__(self, connected: Started) -> None:
        self.hub = connected
        self._count = 0

    async def ask(self, method: str, **params: object) -> None:
        """Ask, and do not wait."""
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        await self.hub.send(json.dumps(request).encode())

    async def asked(self, method: str, **params: object) -> Any:
        """The result."""
        await self.ask(method, **params)
        answer = await self.hub.json()
        assert answer["id"] == self._count, answer
        return answer["result"]

    async def call(self, name: str, /, **arguments: object) -> str:
        """A tool's words."""
        result = await self.asked("tools/call", name=name, arguments=arguments)
        return result["content"][0]["text"]


@asynccontextmanager
async def connected(folder: Path, *arguments: str) -> AsyncGenerator[Raw]:
    """A client that has shaken hands with an episode in the world above."""
    (folder / "world.py").write_text(WORLD)
    async with started("connect", "./world.py", *arguments, folder=folder, XDG_DATA_HOME=str(folder)) as hub:
        client = Raw(hub)
        info = {"name": "test", "version": "1"}
        greeting = await client.asked("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=info)
        assert greeting["instructions"] == "Say yes."
        await hub.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield client


async def test_what_was_played_is_scored_when_the_app_hangs_up_in_mid_call(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        assert await client.call("note") == "noted"
        await client.ask("tools/call", name="wait", arguments={})
        await client.ask("ping")
        assert (await client.hub.json())["id"] == 4
        await client.hub.hang_up()
        assert await client.hub.rest() == ""
        assert await client.hub.process.wait() == 0
    rollout = await record(tmp_path)
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.5)


async def test_what_was_played_is_scored_after_a_sigterm(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await client.call("note")
        client.hub.process.send_signal(signal.SIGTERM)
        client.hub.process.send_signal(signal.SIGTERM)
        assert await client.hub.process.wait() == 0
    assert (await record(tmp_path)).reward == 0.5


async def test_what_was_played_is_scored_when_the_app_kills_its_server(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await client.call("note")
        client.hub.process.kill()
        await client.hub.process.wait()
        assert (await record(tmp_path)).reward == 0.5


async def test_nothing_of_the_score_reaches_the_app(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        told = [await client.asked("tools/list"), await client.call("submit", answer="no")]
        told += [await client.call("note"), await client.asked("ping"), await client.asked("tools/list")]
        await client.hub.hang_up()
        told.append(await client.hub.rest())
    assert told[1:4] == ["Submitted.", CLOSED, {}]
    assert told[4] == told[0]
    text = json.dumps(told)
    assert not [word for word in ("canary", "reward", "0.5", "printed") if word in text]
    assert (await record(tmp_path)).reward == 0.5


async def test_an_app_that_only_looked_leaves_no_record(tmp_path: Path) -> None:
    async with connected(tmp_path, "-o", str(tmp_path / "kept")) as client:
        await client.asked("tools/list")
        await client.call("get_task")
        await client.hub.hang_up()
        assert await client.hub.process.wait() == 0
    assert list((tmp_path / "kept").iterdir()) == []


async def test_what_cannot_be_opened_is_said_on_stderr(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with started("connect", "arithmetic@7.0", log=log, XDG_DATA_HOME=str(tmp_path)) as hub:
        assert await hub.rest() == ""
        assert await hub.process.wait() == 2
    assert "7.0 was asked for" in log.read_text()
    assert records(tmp_path) == []
