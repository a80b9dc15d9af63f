"""The worker process that checks answers: `python -m rollouthub_servers.math.worker`; it reads and writes JSON lines.

It loads sympy once, and forks a child that does the checking. When a candidate exceeds the child's CPU limit the child
is killed, and the next one is forked without importing sympy again. It ends with its stdin.
"""

import json
import os
import resource
import traceback
from dataclasses import asdict

from rollouthub_servers.math.checker import OVER_BUDGET
from rollouthub_servers.math.judge import judge

MEMORY_BYTES = 2 << 30
"""Limit of a child's address space in bytes; allocations beyond it fail."""
CHECKS_PER_CHILD = 2_000
"""Number of checks after which a child is replaced, since sympy's caches only grow."""
WARM_UP_SECONDS = 60.0
_RECYCLED = 17


def main() -> None:
    """Serve requests until stdin ends, as it does with the hub."""
    # Whatever a library prints must not pass for an answer.
    replies = os.dup(1)
    os.dup2(2, 1)
    judge([r"\frac{1}{2}"], "0.5", WARM_UP_SECONDS)  # every child inherits warm parser tables
    while True:
        child = os.fork()
        if child == 0:
            _serve(replies)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        if code != _RECYCLED:
            # But for its budget: the next child may find this request still in the pipe, and answer who asks next.
            end = "died" if code in OVER_BUDGET else "ended"
            os.write(replies, json.dumps({end: code}).encode() + b"\n")


def _serve(replies: int) -> None:
    """Answer requests in a child process; never returns."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = 0
        for _ in range(CHECKS_PER_CHILD):
            line = _read_line()
            if not line:
                break
            code = 1
            judgement = judge(**json.loads(line))
            os.write(replies, json.dumps(asdict(judgement)).encode() + b"\n")
            code = 0
        else:
            code = _RECYCLED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _read_line() -> bytes:
    """Read one request without buffering, so that the rest of the pipe is left for the next child."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            return b""
        line += piece
    return bytes(line)


if __name__ == "__main__":
    main()
