"""Environments on HUD's own classes: templates with and without parts, a server with a tool, and a shell."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

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
    NOTED.clear()
    yield f"Note the word {word}."
    yield float(word in NOTED)


shell = Environment(name="shell")
shell.workspace("/tmp/workspace")


@shell.template()
async def work():
    yield "Work."
    yield 1.0
