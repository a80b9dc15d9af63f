"""Behind walls a program reaches its two URLs and nothing else of the machine, the hub or the network."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Outcome, Rollout, Stop
from rollouthub.errors import ConfigError, HubError
from tests.agents.external_stage import OWN_AGENT, Stage, external, stage
from tests.agents.test_external import SUBMIT

ATTACKS = (
    SUBMIT
    + """
import pathlib, socket, urllib.error, urllib.parse, sys
asked = json.loads(sys.argv[1])
mine = urllib.parse.urlsplit(os.environ["ROLLOUTHUB_AGENT_URL"])
base = f"{mine.scheme}://{mine.netloc}"
def status(url, method="POST", headers={}):
    try:
        request = urllib.request.Request(url, b"{}" if method == "POST" else None, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__
def connects(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(2)
            one.connect(address)
            return True
    except OSError:
        return False
def reads(path):
    try:
        return bool(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
    except OSError:
        return False
def environments():
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            yield from (process / "environ").read_bytes().split(b"\\0")
        except OSError:
            pass
found = {
    "other port": connects(socket.AF_INET, ("127.0.0.1", asked["port"])),
    "other port by name": connects(socket.AF_INET, ("localhost", asked["port"])),
    "internet": connects(socket.AF_INET, ("1.1.1.1", 53)),
    "machine": any(connects(socket.AF_INET, (host, asked["port"])) for host in asked["hosts"]),
    "docker": connects(socket.AF_UNIX, "/var/run/docker.sock"),
    "file": reads(asked["file"]),
    "hub": reads(asked["hub"]),
    "secret": any(b"hub-secret" in pair for pair in environments()),
    "process": sum(1 for _ in pathlib.Path("/proc").glob("[0-9]*")) > 8,
    "forged agent": status(f"{base}/e/{'A' * 32}/mcp"),
    "forged model": status(f"{base}/llm/{'A' * 32}/v1/chat/completions"),
    "past agent": status(f"{base}/e/{asked['past']}/mcp"),
    "past model": status(f"{base}/llm/{asked['past']}/v1/chat/completions"),
    "control": [status(base + path, method) for path in ("/v1/episodes", "/v1/environment", "/metrics", "/")
                for method in ("GET", "POST")],
    "other host": status(os.environ["ROLLOUTHUB_AGENT_URL"], headers={"Host": "example.com"}),
    "home": os.listdir(os.environ["HOME"]),
    "files": sorted(os.listdir()),
}
call("submit", {"answer": json.dumps(found)})
"""
)
CONFESS = SUBMIT + 'call("submit", {"answer": os.environ["ROLLOUTHUB_API_KEY"]})'
CLOSED = {
    "other port": False,
    "other port by name": False,
    "internet": False,
    "machine": False,
    "docker": False,
    "file": False,
    "hub": False,
    "secret": False,
    "process": False,
    "forged agent": 404,
    "forged model": 401,
    "past model": 401,
    "control": [404] * 8,
    "other host": 421,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the tests of a file, so that they share a provider."""
    return "asyncio"


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.live)])
def walls(request: pytest.FixtureRequest) -> str:
    """One kind after the other."""
    return request.param


@pytest.fixture
async def made(walls: str) -> AsyncGenerator[Any]:
    """Makes a stage behind these walls; skipped aloud where there are none."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Stage:
            try:
                return await stack.enter_async_context(stage(external(sandbox=walls, **settings)))
            except HubError as error:
                if any(lack in str(error) for lack in ("engine", "cannot be cut", "without namespaces")):
                    pytest.skip(str(error))
                raise

        yield make


def token_of(rollout: Rollout) -> str:
    """What an episode's program said its token was."""
    assert rollout.answer is not None
    return rollout.answer


async def test_a_program_finds_its_two_urls_and_is_scored(made: Any) -> None:
    on_stage: Stage = await made(command=["python3", OWN_AGENT.name], files=str(OWN_AGENT))
    rollout = await on_stage.play()
    assert (rollout.outcome, rollout.reward, rollout.trainable) == (Outcome.SCORED, 1.0, True)


async def test_a_program_reaches_nothing_but_its_two_urls(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_SECRET", "hub-secret")
    (tmp_path / "answers").write_text("42")
    listener = await anyio.create_tcp_listener(local_host="0.0.0.0")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    asked = {
        "port": port,
        "hosts": ["172.17.0.1", "host.docker.internal", "10.0.2.2"],
        "file": str(tmp_path / "answers"),
        "hub": str(Path(sys.modules["rollouthub"].__file__ or "").parent),
    }
    async with listener:
        first: Stage = await made(command=["python3", "-c", CONFESS])
        asked["past"] = token_of(await first.play())
        second: Stage = await made(command=["python3", "-c", ATTACKS, json.dumps(asked)])
        second.gateway = first.gateway  # where the first episode's token was good
        rollout = await second.play(seconds=60)
    assert (rollout.stop, rollout.faults) == (Stop.SUBMITTED, ())
    found = json.loads(rollout.answer or "{}")
    past, home, files = found.pop("past agent"), found.pop("home"), found.pop("files")
    assert found == CLOSED
    assert past in (202, 400, 404), "a call to an episode that is over is told so, at most"
    assert home == ["prompt.txt"], "each episode has a home of its own"
    assert "answers" not in files


async def test_a_program_that_left_its_session_dies_with_its_episode(made: Any) -> None:
    mark = f"victim-{os.urandom(8).hex()}"
    on_stage: Stage = await made(command=["python3", "-c", PARENT, mark])
    async with anyio.create_task_group() as group:
        group.start_soon(on_stage.play)
        with anyio.fail_after(60):
            while not _is_running(mark):  # noqa: ASYNC110  # it has nobody outside to say so to
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert not _is_running(mark)


PARENT = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(4242)", sys.argv[1] + "-child"]
subprocess.Popen(child, start_new_session=True)
time.sleep(4242)
"""


def _is_running(mark: str) -> bool:
    """Whether the child runs, as this machine sees it."""
    wanted = f"{mark}-child".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


async def test_a_missing_program_is_told_before_the_first_episode(made: Any) -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-agent'"):
        await made(command="no-such-agent {agent_url}")


@pytest.mark.live
async def test_a_missing_image_is_told_before_the_first_episode() -> None:
    with pytest.raises(ConfigError, match="rollouthub-no-such-image"):
        async with stage(external(command="true", image="rollouthub-no-such-image:1")):
            pass
