"""The MCP Inspector's command line against a seat: one process per request, as a person at a terminal would."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from rollouthub_registry.check.thorough.node_programs import (
    INSPECTOR,
    NodeTools,
    Outcome,
    ProgramResult,
    State,
    Unfinished,
)

PACKAGE = "@modelcontextprotocol/inspector"
REQUEST_SECONDS = 60.0
UNREACHABLE, TOOL_ERROR, NOT_PORTABLE = 4, 5, 6
_MEANINGS = {
    UNREACHABLE: "the server cannot be reached",
    TOOL_ERROR: "the tool result is an error",
    NOT_PORTABLE: "a tool's schema is one that some clients cannot read",
}
"""Meanings of the Inspector's exit codes."""

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("legacy", "modern")


class Inspector:
    """The Inspector's command line for one seat."""

    def __init__(self, tools: NodeTools, url: str, era: Era = "legacy") -> None:
        """Raises NoNodeTools where the Inspector is not installed."""
        self._tools, self._program = tools, tools.program(PACKAGE, INSPECTOR)
        self._url, self._era = url, era

    async def ask(self, method: str, *more: str) -> ProgramResult:
        """Make one request and return its result (JSON on stdout).

        Raises:
            Unfinished: no answer came in time.
        """
        with TemporaryDirectory(prefix="rollouthub-inspector-") as home:
            return await self._tools.run(
                self._program,
                ["--cli", self._url, "--transport", "http", "--protocol-era", self._era, "--method", method, *more],
                timeout_seconds=REQUEST_SECONDS,
                folder=Path(home),
            )

    async def tools(self, *, is_strict: bool = True) -> ProgramResult:
        """List the tools; in strict mode, a schema that some clients cannot read is an error."""
        return await self.ask("tools/list", *(["--strict"] if is_strict else []))

    async def call(self, name: str, arguments: Mapping[str, object]) -> ProgramResult:
        """Call a tool."""
        return await self.ask("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))


async def inspector_outcomes(tools: NodeTools, url: str, *, eras: Sequence[Era] = ERAS) -> list[Outcome]:
    """List a seat's tools in strict mode and call `get_task`, which every seat has and which changes nothing.

    Raises:
        NoNodeTools: the Inspector is not installed.
    """
    outcomes: list[Outcome] = []
    for era in eras:
        inspector = Inspector(tools, url, era)
        outcomes.append(await _outcome(f"tools/list --strict, {era}", inspector.tools(), _names))
        outcomes.append(await _outcome(f"tools/call get_task, {era}", inspector.call("get_task", {}), _words))
    return outcomes


async def _outcome(name: str, asking: Awaitable[ProgramResult], read: Callable[[dict[str, Any]], str]) -> Outcome:
    started = time.perf_counter()
    state: State = "broke"
    details: tuple[str, ...] = ()
    try:
        ended = await asking
        details = tuple(ended.stderr.strip().splitlines())
        if ended.code == 0:
            says, state = read(json.loads(ended.stdout)), "held"
        else:
            says = _MEANINGS.get(ended.code, f"the Inspector exited with {ended.code}")
    except Unfinished as problem:
        says = str(problem)
    except (ValueError, KeyError, TypeError) as error:
        says = f"the Inspector printed what is no result: {error}"
    return Outcome(name, state, says, details, seconds=time.perf_counter() - started)


def _names(listing: dict[str, Any]) -> str:
    return f"{len(listing['tools'])} tools"


def _words(result: dict[str, Any]) -> str:
    return f"{sum(len(block.get('text', '')) for block in result['content'])} characters"
