"""Attack: clients killed mid-call and episodes never ended; their resources must be released in time."""

import json
import subprocess
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import Process

from rollouthub.processes import PYTHON
from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.attacks.shell_tools import Shell, find_shell

TTL_SECONDS = 2.0
SLACK_SECONDS = 15.0
_KILLED_CALL_SECONDS = 300
_CLIENT = """
import socket, sys, time
host, port, path, half = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "half"
body = sys.stdin.buffer.read()
head, body = body.split(b"\\0", 1)
peer = socket.create_connection((host, port))
peer.sendall(b"POST " + path.encode() + b" HTTP/1.1\\r\\nHost: " + host.encode() + b":" + str(port).encode() + b"\\r\\n"
             + head + b"Content-Length: " + str(len(body)).encode() + b"\\r\\n\\r\\n" + (body[:10] if half else body))
sys.stdout.write("sent\\n"); sys.stdout.flush()
time.sleep(600)
"""
"""A client that runs in a process of its own, to be killed: it sends a call, or half of one, and waits."""


async def killed(context: AttackContext) -> str:
    """`kill -9` of clients during a call: the seat must answer the next client at once, and the call's processes
    must end.
    """
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            shell = await find_shell(context, opened)
            for half in (True, False):
                calls = _calls(opened, shell)
                for name, arguments in calls:
                    process = await _client(opened, name, arguments, is_half=half)
                    process.kill()
                    await process.wait()
            with anyio.move_on_after(SLACK_SECONDS) as patience:
                answer = await context.call(opened, "get_task", {})
                if not answer.is_granted:
                    context.note(
                        f"after clients were killed the seat refuses the next call at the {access_point}", answer
                    )
            if patience.cancelled_caught:
                context.note(
                    f"after clients were killed the next call waits more than {SLACK_SECONDS:g} s at the {access_point}"
                )
            if shell is None:
                context.leave_out(
                    "it has no tool that runs commands, so no call was long enough to be met in the middle"
                )
            elif access_point == "server":
                await _nothing_runs(context, opened, shell)
    return "clients killed in mid-call leave nothing"


def _calls(opened: OpenEpisode, shell: Shell | None) -> list[tuple[str, Any]]:
    if shell is not None:
        return [(shell.tool.name, shell.arguments(f"sleep {_KILLED_CALL_SECONDS}.75"))]
    return [(tool.name, next(well_formed(tool))) for tool in opened.place.tools if tool.name != "submit"][:4]


async def _client(opened: OpenEpisode, name: str, arguments: object, *, is_half: bool) -> Process:
    parts = urlsplit(opened.place.url)
    body, headers = raw_mcp.modern_request("tools/call", {"name": name, "arguments": arguments})
    head = "".join(f"{key}: {value}\r\n" for key, value in headers.items()).encode()
    where = [parts.hostname or "", str(parts.port or 80), parts.path, "half" if is_half else "whole"]
    process = await anyio.open_process(
        [*PYTHON, "-c", _CLIENT, *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.send(head + b"\0" + body)
    await process.stdin.aclose()
    await process.stdout.receive()
    return process


async def _nothing_runs(context: AttackContext, opened: OpenEpisode, shell: Shell) -> None:
    """Check that the cancelled call's processes are dead before the next call starts."""
    script = f"cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep {_KILLED_CALL_SECONDS}[.]75' ; true"
    answer = await context.call(opened, shell.tool.name, shell.arguments(script))
    if answer.words.strip().splitlines()[:1] not in ([], ["0"]):
        context.note("the processes of a killed client's call still run", answer)


async def forgotten(context: AttackContext) -> str:
    """An episode that no client ends must be closed by its server at its deadline, and its token must stop working."""
    opened = await context.open_raw(ttl_seconds=TTL_SECONDS)
    url = opened.seats[0].url
    session = raw_mcp.Session(context.wire, "of a forgotten episode", url)
    await session.begin()
    state = ""
    with anyio.move_on_after(TTL_SECONDS + SLACK_SECONDS):
        while state not in ("closed", "gone"):
            await anyio.sleep(0.25)
            answer = await context.control("GET", f"/v1/episodes/{opened.id}")
            state = "gone" if answer.status in (404, 409) else str(answer.message.get("state"))
    if state not in ("closed", "gone"):
        context.note(f"{SLACK_SECONDS:g} s after its time was over an episode is still {state}")
        await context.control("DELETE", f"/v1/episodes/{opened.id}")
    for answer in (
        await raw_mcp.modern(context.wire, "of a forgotten episode", url, "tools/list"),
        await session.ask("tools/list"),
        await raw_mcp.call(context.wire, "of a forgotten episode", url, "get_task", {}),
    ):
        context.must_refuse(answer, "the token of an episode whose time is over still opens it")
    return f"an episode of {TTL_SECONDS:g} s was closed by its server"


async def nothing_left(context: AttackContext) -> str:
    """After all attacks, the server must have no episode open except those it was asked to keep."""
    answer = await context.control("GET", "/metrics")
    lines = [
        line
        for line in answer.body.decode(errors="replace").splitlines()
        if line.startswith("rollouthub_episodes_open")
    ]
    if answer.status != 200 or not lines:
        raise NotTried("the server does not count its episodes (`rollouthub_episodes_open` in GET /metrics)")
    count = float(lines[0].split()[-1])
    if count and context.is_own:
        context.note(f"{count:g} episodes are still open after the attacks", answer)
    return f"{json.dumps(lines[0])}"


ATTACKS = (
    Attack("killed-clients", "endings", "a client that is killed frees its call at once", killed),
    Attack(
        "forgotten-episodes", "endings", "an episode that no client ends is closed when its time is over", forgotten
    ),
    Attack("nothing-left", "endings", "no episode is left open", nothing_left),
)
