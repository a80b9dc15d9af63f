"""Runs the MCP project's conformance suite at any environment's seat, as far as it needs no tools of its own."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from rollouthub_registry.check.thorough.node_programs import (
    CONFORMANCE,
    NodeTools,
    NoNodeTools,
    Outcome,
    ProgramResult,
    Unfinished,
)

PACKAGE = "@modelcontextprotocol/conformance"
SCENARIO_SECONDS = 60.0
"""Most seconds for one scenario; it usually takes two, unless the server hangs."""
LEGACY, MODERN = "2025-11-25", "2026-07-28"
AT_ONCE = 2
_BOTH = (LEGACY, MODERN)

Seats = Callable[[], AbstractAsyncContextManager[str]]
"""Opens a seat and gives its URL. Each scenario gets its own, since a tool it calls may end the episode."""


@dataclass(frozen=True)
class Scenario:
    """One scenario of the suite, and the revisions it applies to."""

    name: str
    versions: Sequence[str]
    needs_fixtures: frozenset[str] = frozenset()
    """Its checks that call tools only the suite's own servers have."""


SCENARIOS = (
    Scenario("server-initialize", (LEGACY,)),
    Scenario("server-session-lifecycle", (LEGACY,)),
    Scenario("ping", (LEGACY,)),
    Scenario("tools-list", _BOTH),
    Scenario(
        "server-stateless",
        (MODERN,),
        # An environment asks nothing of its client, so there is no tool to refuse for what a client cannot do.
        frozenset({"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}),
    ),
    Scenario("caching", (MODERN,)),
    Scenario("http-header-validation", (MODERN,)),
    Scenario("dns-rebinding-protection", _BOTH),
    Scenario("server-sse-multiple-streams", _BOTH),
    Scenario("resources-list", _BOTH),
    Scenario("prompts-list", _BOTH),
)
"""Scenarios that any environment must pass, whatever its tools."""


def at(url: str) -> Seats:
    """Seats for `conformance_outcomes` that all have this one URL."""

    @asynccontextmanager
    async def same() -> AsyncGenerator[str]:
        yield url

    return same


async def conformance_outcomes(
    tools: NodeTools,
    seats: Seats,
    *,
    scenarios: Sequence[Scenario] = SCENARIOS,
    scenario_seconds: float = SCENARIO_SECONDS,
) -> list[Outcome]:
    """Run scenarios, each under every revision it applies to and at a new seat; outcomes come in the given order.

    No scenario is left running when the caller leaves.

    Raises:
        NoNodeTools: the suite is not installed.
    """
    program = tools.program(PACKAGE, CONFORMANCE)
    cases = [(scenario, version) for scenario in scenarios for version in scenario.versions]
    outcomes: list[Outcome | None] = [None] * len(cases)
    room = anyio.Semaphore(AT_ONCE)

    async def play(place: int, scenario: Scenario, version: str) -> None:
        async with room, seats() as url:
            outcomes[place] = await _play(tools, program, url, scenario, version, scenario_seconds)

    async with anyio.create_task_group() as tasks:
        for place, (scenario, version) in enumerate(cases):
            tasks.start_soon(play, place, scenario, version)
    return [outcome for outcome in outcomes if outcome is not None]


async def _play(tools: NodeTools, program: Path, url: str, scenario: Scenario, version: str, seconds: float) -> Outcome:
    started = time.perf_counter()
    with TemporaryDirectory(prefix="rollouthub-conformance-") as home:
        arguments = ["server", "--url", url, "--scenario", scenario.name, "--spec-version", version]
        try:
            ended = await tools.run(program, [*arguments, "-o", "results"], timeout_seconds=seconds, folder=Path(home))
            checks = _checks(Path(home) / "results")
        except Unfinished as problem:
            outcome = Outcome(scenario.name, "broke", str(problem), version=version)
        else:
            outcome = _judged(scenario, version, ended, checks)
    return replace(outcome, seconds=time.perf_counter() - started)


def _checks(results: Path) -> list[dict[str, Any]]:
    """The checks in the result file of the suite's last run."""
    files = sorted(results.glob("*/checks.json"))
    return json.loads(files[-1].read_text()) if files else []


def _judged(scenario: Scenario, version: str, ended: ProgramResult, checks: Sequence[dict[str, Any]]) -> Outcome:
    if not checks:
        said = (ended.stderr.strip() or ended.stdout.strip()).splitlines() or [f"it exited with {ended.code}"]
        return Outcome(scenario.name, "not_tried", f"the suite gave no result: {said[-1]}", version=version)
    failed: list[str] = []
    notes: list[str] = []
    held = 0
    for check in checks:
        line = f"{check['id']}: {check.get('errorMessage') or check.get('description', '')}"
        if check["status"] == "SUCCESS":
            held += 1
        elif check["status"] == "WARNING":
            notes.append(f"[advice: {line}]")
        elif check["status"] == "FAILURE":
            if check["id"] in scenario.needs_fixtures or _is_untestable(check):
                notes.append(f"[needs a tool of the suite's own: {line}]")
            else:
                failed.append(line)
    details = (*failed, *notes)
    if failed:
        return Outcome(scenario.name, "broke", f"{len(failed)} of {len(checks)} checks failed", details, version)
    if not held:
        return Outcome(scenario.name, "not_tried", "no check of it applies here", details, version)
    return Outcome(scenario.name, "held", f"{held} checks", details, version)


def _is_untestable(check: dict[str, Any]) -> bool:
    """Whether the suite itself says that the server offers nothing to test the check with."""
    details = check.get("details")
    return isinstance(details, dict) and details.get("untestable") is True  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def missing(problem: NoNodeTools) -> list[Outcome]:
    """The outcome to report where the suite is not installed."""
    return [
        Outcome(scenario.name, "not_tried", str(problem), version=version)
        for scenario in SCENARIOS
        for version in scenario.versions
    ]
