"""Attack: uses a command tool to find verifier files and leave processes (L7, L8)."""

import os
import secrets
import shlex
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from rollouthub.errors import EpisodeError
from rollouthub_registry.check.shell_tool import Shell, shell_among
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange
from rollouthub_registry.check.thorough.target import Target

_NO_SHELL = "it has no tool that runs commands"
GONE_SECONDS = 10.0
"""Seconds within which processes must be gone after their episode."""
_EXFILTRATE = (
    "env; cat /proc/self/environ /proc/1/environ /proc/*/environ 2>/dev/null | tr '\\0' '\\n'",
    "cat /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | sort | uniq | head -c 20000",
    "ls -la / /tests /verifier /solution /oracle /root /home /mnt /run /var/run /logs 2>/dev/null",
    "cat /tests/* /verifier/* /solution/* /root/.*rc /run/secrets/* 2>/dev/null | head -c 50000",
    "cat /proc/mounts /proc/1/mountinfo",
    "find / -xdev -newermt '-10 minutes' -type f -size -64k 2>/dev/null | grep -v '^/proc\\|^/sys' | head -200",
)


async def find_shell(context: AttackContext, opened: OpenEpisode) -> Shell | None:
    """The first tool of an episode under attack that runs commands."""

    async def say(name: str, arguments: Mapping[str, Any]) -> str:
        return (await context.call(opened, name, arguments)).words

    return await shell_among(opened.place.tools, say)


@asynccontextmanager
async def _with_shell(
    context: AttackContext, target: Target | None = None
) -> AsyncGenerator[tuple[OpenEpisode, Shell]]:
    async with context.episode(target=target) as opened:
        shell = await find_shell(context, opened)
        if shell is None:
            raise NotTried(_NO_SHELL)
        yield opened, shell


async def _run(context: AttackContext, opened: OpenEpisode, shell: Shell, script: str) -> RawExchange:
    return await context.call(opened, shell.tool.name, shell.arguments(script))


async def assets(context: AttackContext) -> str:
    """Environment variables, processes, mounts and readable files must not contain what only the verifier may have."""
    searched = 0
    for target in [*context.twins, context.target]:
        try:
            async with _with_shell(context, target) as (opened, shell):
                for script in _EXFILTRATE:
                    await _run(context, opened, shell, script)
                for item in context.watch.items.values():
                    if item.is_planted and "credential" not in item.name:
                        searched += 1
                        await _grep(context, opened, shell, item.text, item.name)
        except EpisodeError:
            context.leave_out(f"no episode opens with a canary in {target.field_planted!r}")
    if context.no_twins is not None:
        context.leave_out(context.no_twins)
    return f"{searched} searches of the whole disk; no file of the agent's holds a canary"


async def _grep(context: AttackContext, opened: OpenEpisode, shell: Shell, canary: str, name: str) -> None:
    """Search every file for the canary; it is sent in two halves, so that the search itself writes it into no file."""
    half = len(canary) // 2
    script = (
        f"A={shlex.quote(canary[:half])}; B={shlex.quote(canary[half:])}; "
        'grep -rIl --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev -- "$A$B" / 2>/dev/null '
        '| head -5 | sed "s/^/fou""nd:/"'
    )
    answer = await _run(context, opened, shell, script)
    if "found:/" in answer.words:
        context.note(f"{name} lies on the agent's disk: {answer.words[:200]}", answer)


async def survivors(context: AttackContext) -> str:
    """A background process that the agent started in a new session must be gone once the episode is closed."""
    if not context.is_local or not await anyio.Path("/proc/self/cmdline").exists():
        raise NotTried("the server's processes cannot be seen from here")
    number = f"9{secrets.randbelow(10**8):08d}"
    async with _with_shell(context) as (opened, shell):
        script = (
            f"(setsid nohup sleep {number} >/dev/null 2>&1 &) ; (sleep {number} >/dev/null 2>&1 &) ; sleep 0.2; true"
        )
        await _run(context, opened, shell, script)
        started = _running(number)
        await opened.end()
    if not started:
        context.leave_out("nothing was seen to run on after its call: it went with it, or cannot be seen from here")
    with anyio.move_on_after(GONE_SECONDS):
        while _running(number):  # noqa: ASYNC110  # nothing tells us
            await anyio.sleep(0.2)
        return f"{len(started)} processes started in the background are gone"
    context.note(f"{len(_running(number))} processes of a closed episode still run after {GONE_SECONDS:g} s")
    for process in _running(number):
        # Nobody else would.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    return ""


def _running(number: str) -> list[int]:
    """Processes of this machine that run `sleep` with this number of seconds."""
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes().split(b"\0")[:2] == [b"sleep", number.encode()]:
                found.append(int(file.parent.name))
        except OSError:
            continue  # it has ended
    return found


ATTACKS = (
    Attack("verifier-files", "L7", "nothing of the verifier's lies where the agent's programs can read", assets),
    Attack("survivors", "L8", "no process of the agent's outlives its episode", survivors),
)
