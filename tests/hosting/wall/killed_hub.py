"""A hub that is to be killed: it plays an episode of an environment that ends for nobody. `KIND FOLDER`."""

import sys
from pathlib import Path

import anyio

from rollouthub.hosting.wall.wall import WallChoice, open_wall
from tests.hosting.wall.evil import install_evil

STUBBORN = """exec('''
import os, signal, threading, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
threading.Thread(target=time.sleep, args=(600,)).start()
''')"""
"""Has the server outlive the end of its stdin, with a process that left its session."""


async def main(kind: WallChoice, folder: Path) -> None:
    """Say when the episode is open, and wait."""
    world = install_evil(folder)
    async with world.episode(await open_wall(kind), {}) as episode:
        (seat,) = episode.seats.values()
        await seat.call_tool("calculate", {"text": STUBBORN})
        sys.stdout.write("up\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    assert sys.argv[1] in ("container", "bubblewrap")
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
