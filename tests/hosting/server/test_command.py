"""`hub serve env` from start to end: what it says, and that nothing is left of it."""

import json
import shutil
import signal
import stat
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from rollouthub.hosting.launch import RoleEndpoint, ServeOrder
from rollouthub.models.mock.mock_server import serve_mock
from tests.hosting.local.worlds import CANARY
from tests.hosting.server.processes import WORLDS, Started, ended, ordered, started
from tests.hosting.server.wire_client import MODERN, TOKEN, Answer


def names_in(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(file.name for file in folder.iterdir())


def modes_of(*files: Path) -> list[int]:
    """Who may do what with files."""
    return [stat.S_IMODE(file.stat().st_mode) for file in files]


def text_of(file: Path) -> str:
    """What is in a file."""
    return file.read_text()


async def ask(url: str, method: str, path: str, body: object = None, token: str = TOKEN) -> Any:
    """One call of a server's control plane."""
    connector = aiohttp.UnixConnector(url.removeprefix("unix:")) if url.startswith("unix:") else None
    base = "http://control" if connector else url
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.request(method, base + path, json=body, headers=headers) as response,
    ):
        return Answer(response.status, {}, await response.read()).json


async def test_an_order_on_stdin_is_served_until_stdin_ends(tmp_path: Path) -> None:
    order = ServeOrder(environment="arithmetic", control_token=TOKEN, control_socket=str(tmp_path / "c.sock"))
    async with ordered(order) as (server, ready):
        assert (ready.name, ready.pid, ready.control_url) == (
            "arithmetic",
            server.process.pid,
            f"unix:{tmp_path / 'c.sock'}",
        )
        assert (await ask(ready.control_url, "GET", "/v1/environment"))["name"] == "arithmetic"
        await server.hang_up()
        assert await server.process.wait() == 0
        assert await server.rest() == ""
    assert names_in(tmp_path) == []


async def test_an_order_without_a_socket_takes_a_free_loopback_port() -> None:
    async with ordered(ServeOrder(environment="arithmetic", control_token=TOKEN)) as (_, ready):
        assert ready.control_url.startswith("http://127.0.0.1:")
        assert (await ask(ready.control_url, "GET", "/v1/environment"))["name"] == "arithmetic"


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (f'{{"environment": "nowhere", "control_token": "{TOKEN}"}}', "no environment is named 'nowhere'"),
        (f'{{"environment": "arithmetic", "control_token": "{TOKEN}", "config": {{"size": 0}}}}', "size"),
        (f'{{"environment": "arithmetic", "control_token": "{TOKEN}", "colour": 1}}', "colour"),
        (f'{{"environment": "arithmetic", "control_token": ["{TOKEN}"]}}', "control_token"),
        (f"{TOKEN}", "orders nothing"),
    ],
)
def test_an_order_that_does_not_hold_is_refused_in_one_line(order: str, told: str, tmp_path: Path) -> None:
    done = ended("-vv", "serve-env", "--from-stdin", folder=tmp_path, stdin=f"{order}\n".encode())
    (line,) = done.stdout.splitlines()
    error = json.loads(line)["error"]
    assert (error["type"] in ("UsageError", "ConfigError"), told in error["message"]) == (True, True)
    assert done.returncode == 2
    assert TOKEN not in done.stdout + done.stderr


def test_no_order_is_no_fault(tmp_path: Path) -> None:
    done = ended("serve-env", "--from-stdin", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


async def open_and_call(ready_url: str, token: str = TOKEN) -> None:
    """Open an episode and leave it open."""
    opened = await ask(ready_url, "POST", "/v1/episodes", {"task": {"id": "one", "split": "test"}}, token)
    assert opened["seats"]


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGINT"])
async def test_told_to_leave_it_closes_its_episodes(how: str, tmp_path: Path) -> None:
    (tmp_path / "worlds.py").write_text(JOURNALLING)
    order = ServeOrder(environment=str(tmp_path / "worlds.py"), control_token=TOKEN)
    async with ordered(order) as (server, ready):
        await open_and_call(ready.control_url)
        assert (tmp_path / "journal").read_text() == "setup\n"
        if how == "end of stdin":
            await server.hang_up()
        else:
            server.process.send_signal(getattr(signal, how))
        assert await server.process.wait() == (130 if how == "SIGINT" else 0)
    assert (tmp_path / "journal").read_text() == "setup\nclose\n"


async def test_what_an_environment_prints_is_not_taken_for_the_greeting(tmp_path: Path) -> None:
    loud = "print('hello')\n" + JOURNALLING.replace(
        'self.note("setup")', "__import__('subprocess').run('echo hello; cat', shell=True)"
    )
    (tmp_path / "loud.py").write_text(loud)
    order = ServeOrder(environment=str(tmp_path / "loud.py"), control_token=TOKEN)
    async with ordered(order, tmp_path / "log") as (server, ready):
        await open_and_call(ready.control_url)
        await server.hang_up()
        assert (await server.rest(), await server.process.wait()) == ("", 0)
    assert (tmp_path / "log").read_text().count("hello") == 2


JUDGED = """
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
from rollouthub.messages import user
from rollouthub.generation import ModelRequest


class Judged(Environment[EnvironmentConfig]):
    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="?"), Secret())

    async def verify(self, submission):
        reply = await self.models["judge"].generate(ModelRequest([user("good?")]))
        return Score(reward=1.0, feedback=reply.message.text)
"""


async def verdict(control_url: str) -> Any:
    """Open an episode and score it at once."""
    opened = await ask(control_url, "POST", "/v1/episodes", {"task": {"id": "one", "split": "test"}})
    return (await ask(control_url, "POST", f"/v1/episodes/{opened['id']}/verify"))["score"]


async def test_a_role_is_played_by_the_model_that_the_order_names(tmp_path: Path) -> None:
    (tmp_path / "judged.py").write_text(JUDGED)
    bound: list[int] = []
    async with anyio.create_task_group() as tasks:
        model = partial(serve_mock, "mock/echo", "127.0.0.1", 0, ready=bound.append, api_key="role-canary-77")
        tasks.start_soon(model)
        while not bound:
            await anyio.lowlevel.checkpoint()
        endpoint = RoleEndpoint(
            model="openai/judge-9",
            served_name="mock",
            base_url=f"http://127.0.0.1:{bound[0]}/v1",
            api_key="role-canary-77",
        )
        order = ServeOrder(environment=str(tmp_path / "judged.py"), control_token=TOKEN, roles={"judge": endpoint})
        async with ordered(order, tmp_path / "log") as (server, ready):
            score = await verdict(ready.control_url)
            assert (score["reward"], "good?" in score["feedback"]) == (1.0, True)
            assert [(call["role"], call["model"]) for call in score["judge_calls"]] == [("judge", "openai/judge-9")]
            await server.hang_up()
            await server.process.wait()
        tasks.cancel_scope.cancel()
    assert "role-canary-77" not in (tmp_path / "log").read_text()


async def test_a_role_is_played_by_a_model_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "judged.py").write_text(JUDGED)
    arguments = ("serve", "env", str(tmp_path / "judged.py"), "--role", "judge=mock/echo", "--json")
    async with started(*arguments, ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as server:
        assert (await verdict((await server.json())["control_url"]))["reward"] == 1.0


JOURNALLING = """
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

JOURNAL = Path(__file__).with_name("journal")


class Journalling(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="?"), Secret())

    async def setup(self):
        self.note("setup")

    async def close(self):
        self.note("close")

    def note(self, word):
        with JOURNAL.open("a") as file:
            file.write(word + "\\n")

    async def verify(self, submission):
        return Score(reward=0.0)
"""


async def announced(server: Started) -> dict[str, str]:
    """What a server tells people."""
    lines = [await server.line() for _ in range(5)]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_people_are_told_where_it_is_and_where_the_credential_is(tmp_path: Path) -> None:
    async with started("serve", "env", "arithmetic", XDG_RUNTIME_DIR="", TMPDIR=str(tmp_path)) as server:
        told = await announced(server)
        file = Path(told["control credential"])
        assert modes_of(file, file.parent) == [0o600, 0o700]
        token = text_of(file)
        assert len(token) >= 32
        assert token not in " ".join(told.values())
        assert (await ask(told["control"], "GET", "/v1/environment", token=token))["name"] == "arithmetic"
        done = await anyio.run_process(["bash", "-c", told["try it"] + " -s"])
        assert b'"name":"arithmetic"' in done.stdout
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0
    assert names_in(tmp_path) == []


async def test_a_credential_given_in_the_environment_is_used_and_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / "prying.py").write_text(
        JOURNALLING.replace('self.note("setup")', 'self.note(str(__import__("os").environ))')
    )
    control = f"unix:{tmp_path}/c.sock"
    arguments = ("serve", "env", str(tmp_path / "prying.py"), "--control", control, "--json")
    async with started(*arguments, ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as server:
        ready = await server.json()
        assert ready["control_url"] == control
        await open_and_call(ready["control_url"])
        assert TOKEN not in (tmp_path / "journal").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "what is to be served"),
        (("arithmetic", "--set", "size=none"), "size"),
        pytest.param(
            ("arithmetic", "--role", "judge=mock/solver"), "asks no model as its judge", marks=pytest.mark.soak
        ),
        (("arithmetic", "--control", "nonsense"), "neither unix:PATH nor HOST:PORT"),
        pytest.param(
            ("arithmetic", "--control", "unix:/" + "x" * 120), "longer than 107 bytes", marks=pytest.mark.soak
        ),
        pytest.param(("arithmetic", "--host", "0.0.0.0"), "--public-url", marks=pytest.mark.soak),
        (("arithmetic", "--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        pytest.param(("arithmetic", "--public-url", "nowhere"), "is no http URL", marks=pytest.mark.soak),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = ended("serve", "env", *arguments, folder=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert names_in(tmp_path) == []


async def test_a_socket_in_use_is_refused_and_a_dead_one_replaced(tmp_path: Path) -> None:
    control = f"unix:{tmp_path}/c.sock"
    async with started("serve", "env", "arithmetic", "--control", control, "--json") as first:
        await first.json()
        async with started("serve", "env", "arithmetic", "--control", control, log=tmp_path / "log") as second:
            assert await second.process.wait() == 2
            assert "cannot listen" in (tmp_path / "log").read_text()
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
    assert (tmp_path / "c.sock").is_socket()
    async with started("serve", "env", "arithmetic", "--control", control, "--json") as third:
        assert (await third.json())["control_url"] == control


async def test_an_episode_that_does_not_close_holds_nobody_up(tmp_path: Path) -> None:
    stubborn = JOURNALLING.replace(
        'self.note("close")',
        "import anyio\n        with anyio.CancelScope(shield=True):\n            await anyio.sleep_forever()",
    )
    (tmp_path / "stubborn.py").write_text(stubborn)
    async with ordered(ServeOrder(environment=str(tmp_path / "stubborn.py"), control_token=TOKEN)) as (server, ready):
        await open_and_call(ready.control_url)
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(20):
            await server.process.wait()


async def test_nothing_secret_is_in_a_log_at_debug(tmp_path: Path) -> None:
    log = tmp_path / "log"
    order = ServeOrder(environment=f"{WORLDS}:Workshop", control_token=TOKEN)
    async with ordered(order, log) as (server, ready):
        opened = await ask(ready.control_url, "POST", "/v1/episodes", {"task": {"id": "one", "split": "test"}})
        token = opened["seats"][0]["token"]
        async with aiohttp.ClientSession() as http:
            headers = {"MCP-Protocol-Version": MODERN, "Authorization": f"Bearer {token}"}
            for url in (opened["seats"][0]["url"], f"{ready.agent_url}/mcp", f"{ready.agent_url}/e/{token}x/mcp"):
                for body in (b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'):
                    for more in (headers, {}, headers | {"Host": "evil.example"}):
                        kind = {"Content-Type": "application/json", "Accept": "application/json"}
                        async with http.post(url, data=body, headers=kind | more) as response:
                            assert token not in await response.text()
        await ask(ready.control_url, "POST", f"/v1/episodes/{opened['id']}/verify", {"submission": {"answer": "no"}})
        await ask(ready.control_url, "GET", "/v1/nothing")
        await server.hang_up()
        assert await server.process.wait() == 0
    written = log.read_text()
    assert "session" in written, "the log is on"
    for secret in (TOKEN, token, CANARY):
        assert secret not in written
