"""A process that outlives its starter's patience: what is killed is a stand-in, and what it kept is finished.

Desktop apps start MCP servers, and kill them two seconds after they closed their stdin; a verdict may take longer.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

import anyio


def outlive(work: Callable[[int], int]) -> int:
    """Do the work in a child of a session of its own, and wait for it; its exit code, in both processes.

    `work` is given a file descriptor that ends when the stand-in has been killed.
    """
    lifeline, ours = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setsid()
        return work(lifeline)
    os.close(lifeline)
    return _stand_in(child)


def _stand_in(child: int) -> int:
    """Wait for the child, and pass on what the stand-in is told."""
    told = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:  # a second one would have the child leave its work
            told = True
            os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    for number in (0, 1):
        os.close(number)  # they are the child's: whoever reads stdout sees its end when the child closes it
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


async def until_alone(lifeline: int) -> None:
    """Return when the stand-in is gone; stderr leads nowhere from then on, so that nobody waits for its end."""
    await anyio.wait_readable(lifeline)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
