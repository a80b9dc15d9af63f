"""A shell in a sandbox of processes leaves its person's terminal, and their programs, to them."""

import shlex
import shutil
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rollouthub.errors import SandboxError
from rollouthub.hosting.local.shell_access import ways_into
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.process import process_provider
from rollouthub_sandboxes.process.process_isolation import Kind
from tests.sandboxes.terminal import type_into

# Types into the terminal that it runs in, as any program may that holds one.
TYPING = "import fcntl, termios\n[fcntl.ioctl(0, termios.TIOCSTI, bytes([c])) for c in b'echo owned\\n']"
KINDS: tuple[Kind, ...] = ("namespaces", "limits")


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_runs_in_it_cannot_type_into_the_terminal_it_was_opened_from(kind: Kind) -> None:
    async with process_provider((kind,)) as provider:
        try:
            await provider.prepare(SandboxSpec())
        except SandboxError as error:
            pytest.skip(f"{kind} cannot be had here: {error}")
        async with provider.open(SandboxSpec()) as sandbox:
            (way,) = ways_into(sandbox).ways
            python = (await sandbox.exec("command -v python3")).stdout.text.strip()
            await sandbox.write_file(f"{sandbox.workdir}/typing.py", TYPING.encode())
            # A terminal with a shell in it that goes on after the other.
            outer = f'{shlex.join(way.command)}; read -t 1 rest; echo "typed: <$rest>"'
            command = ("setsid", "--ctty", "--wait", "bash", "-c", outer)
            typed = f"{python} typing.py; exit\n"
            shown = await anyio.to_thread.run_sync(type_into, command, typed)
    assert "typed: <>" in shown.splitlines(), shown


async def test_nothing_that_a_sandbox_may_have_put_into_its_search_path_is_run_outside(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("setpriv", "nsenter", "script"):
        (mine / name).write_text("#!/bin/sh\necho owned by $(id -u)\n")
        (mine / name).chmod(0o755)
    spec = SandboxSpec(environment={"PATH": f"{mine}:/usr/bin:/bin"})
    async with process_provider(("limits",)) as provider:
        try:
            await provider.prepare(spec)
        except SandboxError as error:
            pytest.skip(f"limits cannot be had here: {error}")
        async with provider.open(spec) as sandbox:
            (way,) = ways_into(sandbox).ways
            shown = await anyio.to_thread.run_sync(type_into, way.command, "echo in; exit\n")
    assert "owned by" not in shown
    assert shutil.which("setpriv") in " ".join(way.command).split()
