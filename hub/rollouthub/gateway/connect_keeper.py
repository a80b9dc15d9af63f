"""Lets `hub connect` finish scoring after the app has killed its process: the app's child is only a stand-in for the
working process.

Desktop apps kill their MCP servers two seconds after closing their stdin; a verdict may take longer.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

import anyio


def outlive(work: Callable[[int], int]) -> int:
    """Run `work` in a forked child with a session of its own, and wait for it. Returns its exit code, in both
    processes.

    `work` gets a file descriptor that becomes readable when the parent process has been killed.
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
    """Wait for the child process, and pass the first stop signal on to it."""
    was_signalled = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal was_signalled
        if not was_signalled:  # a second one would have the child leave its work
            was_signalled = True
            os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    for number in (0, 1):
        os.close(number)  # they are the child's: whoever reads stdout sees its end when the child closes it
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


async def until_alone(lifeline: int) -> None:
    """Wait until the parent process is gone, then redirect stderr to the null device, so that no reader of stderr
    waits for this process.
    """
    await anyio.wait_readable(lifeline)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
