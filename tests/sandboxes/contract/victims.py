"""Processes that try to outlive their command, each of which says so when it is alive."""

import textwrap

import anyio

from rollouthub.sandbox import Sandbox

_DAEMON = textwrap.dedent(
    """
    import os, signal, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            with open("alive", "w") as alive:
                alive.write(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    """
)
VICTIMS = {
    "child": "sh -c 'echo $$ > alive; exec sleep 1000' & ",
    "own session": "setsid sh -c 'echo $$ > alive; exec sleep 1000' & ",
    "double fork": "( sh -c 'echo $$ > alive; exec sleep 1000' & ) & ",
    "deaf to TERM": """sh -c 'trap "" TERM INT HUP; echo $$ > alive; while :; do sleep 1000; done' & """,
    "deaf daemon": f"python3 -c '{_DAEMON.replace(chr(39), chr(34))}' ",
}
"""Each writes its process id into the fifo `alive`, and then stays."""


async def watch(sandbox: Sandbox) -> None:
    """Make the fifo that a victim reports to."""
    done = await sandbox.exec(["mkfifo", "alive"])
    assert done.exit_status == 0, done.stderr.text


async def living(sandbox: Sandbox) -> int:
    """Wait until a victim has reported; its process id, seen alive."""
    with anyio.fail_after(20):
        pid = int((await sandbox.exec(["cat", "alive"])).stdout.text)
    assert await is_running(sandbox, pid), "the victim was to be alive first"
    return pid


async def is_running(sandbox: Sandbox, pid: int) -> bool:
    """Whether a process inside the sandbox is there, zombies aside."""
    look = f"test -d /proc/{pid} && ! grep -q '^State:.*zombie' /proc/{pid}/status"
    return (await sandbox.exec(look)).exit_status == 0
