"""`hub connect`: an app starts it, talks MCP on its stdin and stdout, and leaves in its own way."""

import json
import os
import shlex
import signal
import subprocess
import tomllib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio
import pytest
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from rollouthub import Outcome, Rollout, Stop
from rollouthub.cli.find_run import user_store
from rollouthub.cli.main import app
from rollouthub.engine.run_request import build_request
from rollouthub.errors import UsageError
from rollouthub.gateway.app_configs import App
from rollouthub.gateway.app_connection import AppConnection, ConnectOrder
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.stdio_bridge import MAX_LINE_BYTES
from rollouthub.hosting.server.stdio_pipe import read_lines, write_line
from rollouthub.models.credentials import load_credentials
from rollouthub.store import find_runs, open_run
from rollouthub.store.run_facts import RunInfo
from tests.hosting.server.processes import HUB, Started, started
from tests.hosting.server.wire_client import LEGACY, META, said

HAGGLE = Path(__file__).parent / "sessions" / "haggle.py"
WORLD = '''
import asyncio
from collections.abc import Iterator
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


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


DICE = """
from rollouthub import Environment, EnvironmentConfig

class DiceConfig(EnvironmentConfig):
    size: int = 6

class Dice(Environment[DiceConfig]):
    pass
"""


def records(data: Path) -> list[Rollout]:
    """What the user's store holds."""
    found: list[Rollout] = []
    for run in find_runs(user_store({"XDG_DATA_HOME": str(data)})):
        assert isinstance(run, RunInfo), run
        with open_run(run.directory) as reader:
            found += [reader.rollout(row.rollout_id) for row in reader.summaries()]
    return found


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
    Path("dice.py").write_text(DICE)
    given = ["./dice.py", "--task", "a b", "--set", "size=3", "--seed", "7", "--max-turns", "9"]
    [command] = {tuple(printed(name, *given)) for name in App}
    assert Path(command[0]).is_absolute()
    assert os.access(command[0], os.X_OK)
    assert command[-12:] == (
        *("connect", f"{tmp_path}/dice.py", "--seed", "7", "--set", "size=3", "--max-turns", "9"),
        *("--task", "a b", "-o", "/data home/rollouthub/runs"),
    )


@pytest.mark.parametrize("given", [["nosuch"], ["./nosuch.py"], ["arithmetic", "--set", "nosuch=1"]])
def test_no_configuration_is_printed_for_what_cannot_start(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["connect", *given, "--print-config", "claude"])
    assert isinstance(done.exception, UsageError)  # which `hub` ends with 2 for
    assert "nosuch" in str(done.exception)
    assert done.stdout == ""


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
    [rollout] = records(data)
    assert (rollout.agent.name, rollout.reward, rollout.stop) == ("desktop", 1.0, Stop.SUBMITTED)
    assert rollout.answer == answer


async def test_what_is_printed_plays_an_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    await play(printed(App.CLAUDE, "arithmetic", "--set", "terms=2"), tmp_path, "legacy")
    [run] = json.loads(CliRunner().invoke(app, ["runs", "--json"]).stdout)
    assert run["agent"] == "desktop"


async def test_an_app_plays_one_seat_and_models_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = printed(App.CLAUDE, str(HAGGLE), "--seat", "seller=mock/say?text=eight")
    server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ})
    async with Client(server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"get_task", "listen", "reply"}
        heard = [said(await client.call_tool("reply", {"text": "seven"})) for _ in range(2)]
    assert heard == ["seller: eight", "The conversation is over."]
    [rollout] = records(tmp_path)
    assert (rollout.agent.name, rollout.reward, rollout.model_of("seller")) == ("desktop", 1.0, "mock/say?text=eight")


def test_an_app_is_not_given_one_of_several_free_seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = subprocess.run([*HUB, "connect", str(HAGGLE)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--seat seller=MODEL" in " ".join(done.stderr.split())


@pytest.mark.live
@pytest.mark.parametrize("name", App)
async def test_every_printed_form_plays_an_episode(name: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    await play(printed(name, "arithmetic", "--set", "terms=2"), tmp_path, "auto")


# --- apps that leave in their own way ---------------------------------------------------------------------------------


class Wire(Protocol):
    """Lines to and from a server."""

    async def send(self, line: bytes) -> None: ...
    async def json(self) -> Any: ...
    async def hang_up(self) -> None: ...
    async def rest(self) -> str: ...


class Pipes:
    """A connection in this process, as its app has it."""

    def __init__(self, order: ConnectOrder, stdin: int, stdout: int) -> None:
        self._order, self._stdin = order, stdin
        self._lines = read_lines(stdout, MAX_LINE_BYTES)
        self.log: list[str] = []
        self.told_to_leave, self.over = anyio.Event(), anyio.Event()

    async def serve(self) -> None:
        """The other end."""
        connection = AppConnection(self._order, self.log.append)
        await connection.serve(lambda visit: None, self.told_to_leave.wait, lambda: None)
        os.close(self._order.stdout)
        self.over.set()

    async def send(self, line: bytes) -> None:
        """Give it a line."""
        await write_line(self._stdin, line)

    async def json(self) -> Any:
        """Its next line."""
        line = await anext(self._lines)
        assert isinstance(line, bytes)
        return json.loads(line)

    async def hang_up(self) -> None:
        """Close its stdin."""
        os.close(self._stdin)

    async def rest(self) -> str:
        """What else it says, to its end."""
        lines = [line async for line in self._lines if isinstance(line, bytes)]
        await self.over.wait()
        return b"\n".join(lines).decode()


WireT = TypeVar("WireT", bound=Wire)


class Raw(Generic[WireT]):
    """A client that knows lines alone."""

    def __init__(self, wire: WireT, *, modern: bool = False) -> None:
        self.hub = wire
        self._count, self._meta = 0, {"_meta": META} if modern else {}

    async def ask(self, method: str, **params: object) -> int:
        """Ask, and do not wait."""
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": {**params, **self._meta}}
        await self.hub.send(json.dumps(request).encode())
        return self._count

    async def asked(self, method: str, **params: object) -> Any:
        """The result."""
        number = await self.ask(method, **params)
        answer = await self.hub.json()
        assert answer["id"] == number, answer
        return answer["result"]

    async def call(self, name: str, /, **arguments: object) -> str:
        """A tool's words."""
        result = await self.asked("tools/call", name=name, arguments=arguments)
        return result["content"][0]["text"]

    async def greet(self) -> None:
        """Shake hands, where that is done."""
        if self._meta:
            return
        info = {"name": "test", "version": "1"}
        greeting = await self.asked("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=info)
        assert greeting["instructions"] == "Say yes."
        await self.hub.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


@asynccontextmanager
async def connected(folder: Path, *, modern: bool = False) -> AsyncGenerator[Raw[Pipes]]:
    """A client and an episode in the world above."""
    (folder / "world.py").write_text(WORLD)
    stdin, app_writes = os.pipe()
    app_reads, stdout = os.pipe()
    order = ConnectOrder(
        request=build_request({"environments": [str(folder / "world.py")]}, "test"),
        task=EpisodeRequest(pick="random"),
        version="0.1.0",
        directory=user_store({"XDG_DATA_HOME": str(folder)}) / "run",
        credentials=load_credentials({}, folder),
        stdin=stdin,
        stdout=stdout,
    )
    pipes = Pipes(order, app_writes, app_reads)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.serve)
            client = Raw(pipes, modern=modern)
            await client.greet()
            yield client
            await pipes.over.wait()
    os.close(stdin)
    os.close(app_reads)


@asynccontextmanager
async def started_by_an_app(folder: Path) -> AsyncGenerator[Raw[Started]]:
    """The same, with a process of its own."""
    (folder / "world.py").write_text(WORLD)
    async with started("connect", "./world.py", folder=folder, XDG_DATA_HOME=str(folder)) as hub:
        client = Raw(hub)
        await client.greet()
        yield client


@pytest.mark.parametrize("modern", [True, False])
async def test_what_was_played_is_scored_when_the_app_hangs_up_in_mid_call(tmp_path: Path, modern: bool) -> None:
    async with connected(tmp_path, modern=modern) as client:
        assert await client.call("note") == "noted"
        await client.ask("tools/call", name="wait", arguments={})
        await client.call("note")
        await client.hub.hang_up()
        assert await client.hub.rest() == ""
    [rollout] = records(tmp_path)
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.FINISHED, 0.5)


async def test_what_was_played_is_scored_when_we_are_told_to_leave(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await client.call("note")
        client.hub.told_to_leave.set()
        assert await client.hub.rest() == ""
    assert [rollout.reward for rollout in records(tmp_path)] == [0.5]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_was_played_is_scored_when_the_app_ends_its_server(tmp_path: Path, number: signal.Signals) -> None:
    async with started_by_an_app(tmp_path) as client:
        assert await client.call("note") == "noted"
        for _ in range(2):
            client.hub.process.send_signal(number)
        assert await client.hub.rest() == ""  # its end is that of the process which keeps the record
        assert await client.hub.process.wait() == (-9 if number == signal.SIGKILL else 0)
    assert [rollout.reward for rollout in records(tmp_path)] == [0.5]


@pytest.mark.parametrize("modern", [True, False])
async def test_nothing_of_the_score_reaches_the_app(tmp_path: Path, modern: bool) -> None:
    async with connected(tmp_path, modern=modern) as client:
        told = [await client.asked("tools/list"), await client.call("submit", answer="no")]
        told += [await client.call("submit", answer="yes"), await client.asked("tools/list")]
        await client.ask("ping")
        told.append(await client.hub.json())
        await client.hub.hang_up()
        told += [await client.hub.rest(), *client.hub.log]
    assert told[1:3] == ["Submitted.", CLOSED]
    assert told[3] == told[0]
    text = json.dumps(told)
    assert not [word for word in ("canary", "reward", "0.5") if word in text]
    [rollout] = records(tmp_path)
    assert (rollout.answer, rollout.reward) == ("no", 0.5)


async def test_an_app_that_only_looked_leaves_no_record(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await client.asked("tools/list")
        await client.call("get_task")
        await client.hub.hang_up()
    assert list(user_store({"XDG_DATA_HOME": str(tmp_path)}).iterdir()) == []


async def test_what_cannot_be_opened_is_said_on_stderr_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with started("connect", "arithmetic@7.0", log=log, XDG_DATA_HOME=str(tmp_path)) as hub:
        assert await hub.rest() == ""
        assert await hub.process.wait() == 2
    assert "7.0 was asked for" in log.read_text()
    assert records(tmp_path) == []
