"""The fork server: Python and its common modules, loaded once and behind walls, forked for every run.

It never sees what is run: it passes the sockets it is given to a keeper, who reads the request itself. So a program,
which shares this process's memory as it was before the fork, finds nothing of another run there.
"""

import gc
import os
import signal
import socket
import sys
from importlib import import_module

from envhub_sandboxes.jail.keeper import keep
from envhub_sandboxes.jail.walls import make_walls

PRELOADED = (
    *("ast", "bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "hashlib", "heapq"),
    *("itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
)
"""What programs commonly import; a fork has them at no cost."""


def main() -> None:
    """Serve the socket whose number is given, behind the walls whose name is given, until the hub hangs up."""
    door = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        import_module(name)
    try:
        walls = make_walls(sys.argv[2])
    except OSError as error:
        door.send(f"! {error}".encode())
        return
    door.send(walls.name.encode())
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    while True:
        message, fds, _, _ = socket.recv_fds(door, 16, 2)
        if not message:
            return
        try:
            pid = os.fork()
        except OSError:
            pid = -1  # the hub sees its socket closed without an answer
        if pid == 0:
            door.close()
            keep(socket.socket(fileno=fds[0]), fds[1] if len(fds) > 1 else None, walls)
        for fd in fds:
            os.close(fd)
