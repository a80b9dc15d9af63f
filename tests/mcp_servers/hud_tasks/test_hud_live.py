"""The SDK hud itself: environments played, their rewards those of its own protocol. Needs a package index."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Deadlines, Score, Submission
from rollouthub.errors import UsageError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home

pytestmark = pytest.mark.live
ENV = '''
import asyncio
import socket

from fastmcp import FastMCP
from hud import Environment
from hud.capabilities import Capability
from hud.graders import EvaluationResult, SubScore

words = Environment(name="words")


@words.template()
async def count_letter(word: str, letter: str = "r"):
    answer = yield f"How many of {letter!r} are in {word!r}?"
    yield 1.0 if answer and str(word.count(letter)) in answer else 0.0


@words.template()
async def guess(secret: str):
    answer = yield [{"role": "user", "content": "Guess."}, {"role": "assistant", "content": "What?"}]
    right = float(secret in (answer or ""))
    part = SubScore(name="right", weight=1.0, value=right)
    yield EvaluationResult(reward=right / 2, subscores=[part], content=secret)


tasks = [count_letter(word=word) for word in ("strawberry", "plum")]
notes = Environment(name="notes")
server = FastMCP("notes")
NOTED = []


@server.tool
def note(word: str) -> str:
    """Note a word."""
    NOTED.append(word)
    return f"noted {len(NOTED)}"


@notes.initialize
async def up():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served = server.run_async(transport="http", host="127.0.0.1", port=port, show_banner=False)
    asyncio.get_running_loop().create_task(served)
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        break
    notes.add_capability(Capability.mcp(name="notes", url=f"http://127.0.0.1:{port}/mcp"))


@notes.template()
async def keep(word: str = "plum"):
    yield f"Note the word {word}."
    yield float(word in NOTED)


shell = Environment(name="shell")
shell.workspace("/tmp/workspace")


@shell.template()
async def work():
    yield "Work."
    yield 1.0
'''
OWN = """
import asyncio
import json
import sys

from hud.environment import load_environment
from hud.environment.server import bind
from hud.environment.utils import read_frame, send_frame


async def asked(reader, writer, method, **params):
    await send_frame(writer, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return (await read_frame(reader))["result"]


async def main():
    env = load_environment(sys.argv[1], name="words")
    await env.start()
    server = await bind(env, "127.0.0.1", 0)
    scores = []
    for task, args, answer in json.loads(sys.argv[2]):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        await asked(reader, writer, "hello")
        prompt = (await asked(reader, writer, "tasks.start", id=task, args=args))["prompt"]
        scores.append([prompt, (await asked(reader, writer, "tasks.grade", answer=answer))["score"]])
        writer.close()
    print(json.dumps(scores))


asyncio.run(main())
"""
ROWS = [
    {"env": "words", "id": "guess", "args": {"secret": "owl-secret"}, "slug": "owl"},
    {"env": "words", "id": "guess", "args": {"secret": "elk-secret"}, "slug": "elk"},
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environments that can be played, imported."""
    root = tmp_path_factory.mktemp("hud")
    source = root / "source"
    source.mkdir()
    (source / "env.py").write_text(ENV)
    (source / "tasks.json").write_text(json.dumps(ROWS))
    importer, place = find_importer("hud"), ImportSource.of(str(source))
    try:
        found = {each.id: each for each in importer.look(place, {})}
    except UsageError as error:
        if "choosing its dependencies" in str(error):
            pytest.skip(f"hud cannot be had here: {error}")
        raise
    assert {name: each.runs for name, each in found.items()} == {"notes": True, "shell": False, "words": True}
    assert found["shell"].reasons[0] == "capability 'shell': ssh/2, which agents here lack"
    importer.write(place, ["notes", "words"], {}, root / "out", Identity())
    return root / "out"


async def said(file: Path, name: str, words: str, *notes: str) -> tuple[Any, Score]:
    """An answer to one task after some notes: what was shown before, and its score."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        card = await host.find_task("test", name, 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            for note in notes:
                assert not (await seat.call_tool("note", {"word": note})).is_error
            assert (await seat.call_tool("grade", {"answer": "x"})).is_error
            assert await seat.reply([assistant(words)]) is None
            shown = [message.text for message in seat.messages]
            assert "secret" not in repr((shown, seat.tools, card.public))
            return shown, await episode.verify(Submission(transcript=(*seat.messages, assistant(words))))


async def test_rewards_are_those_of_its_own_protocol(packages: Path) -> None:
    file = packages / "words" / "words_env.py"
    data = file.parent / "data"
    names = [json.loads(line)["row"] for line in (data / "tasks.jsonl").read_text().splitlines()]
    jobs = [(row, answer) for row in names for answer in ("3", "0", "owl-secret", "", '{"score": 1.0}')]
    played = [await said(file, row["slug"], answer) for row, answer in jobs]
    given = json.dumps([[row["id"], row["args"], answer] for row, answer in jobs])
    python = foreign_home().python(ForeignLock.read(data / LOCK_FILE).dependencies)
    (data / "own.py").write_text(OWN)
    done = await anyio.run_process([str(python), "-P", str(data / "own.py"), str(data / "code" / "env.py"), given])
    own = json.loads(done.stdout.splitlines()[-1])
    assert [score.reward for _, score in played] == [score for _, score in own]
    assert {score.reward for _, score in played} == {0.0, 0.5, 1.0}
    assert [score.metrics.get("right") for _, score in played if score.reward == 0.5] == [1.0]


async def test_tools_are_called_at_its_own_server(packages: Path) -> None:
    file = packages / "notes" / "notes_env.py"
    shown, score = await said(file, "keep", "Done.", "plum")
    assert (shown, score.reward) == (["Note the word plum."], 1.0)
    assert (await said(file, "keep", "plum", "pear"))[1].reward == 0.0


def test_what_cannot_be_installed_says_so(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(ENV)
    with pytest.raises(UsageError, match="no-such-distribution-of-anybody"):
        find_importer("hud").look(
            ImportSource.of(str(tmp_path)), {"requirements": ["no-such-distribution-of-anybody==1.0"]}
        )
