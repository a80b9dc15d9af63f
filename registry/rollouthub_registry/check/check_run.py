"""Runs the checks of an environment and prints their findings."""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from anyio import to_thread
from rich.console import Console
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.event_loop import run_async
from rollouthub.plugins.installed import find_installation, installations
from rollouthub.text import one_line
from rollouthub_registry.check.check_finding import Check, Finding, State
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_suite import OnCheck, chosen_checks, find_and_check, open_roles
from rollouthub_registry.check.checks import CHECKS

_SHOWN = 5
_MARKS: dict[State, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "not_applicable": ("–", "dim"),
}


def check_command(target: str, asked: CheckRequest, as_json: bool) -> int:
    """Check an environment and print the findings; returns the exit code."""
    chosen_checks(asked.only)
    started = time.perf_counter()
    shown = _Shown(is_quiet=as_json)
    findings = run_async(partial(check_environment, target, asked, shown))
    shown.clear()
    seconds = time.perf_counter() - started
    is_good = all(finding.state != "failed" for finding in findings)
    if as_json:
        report = {
            "environment": target,
            "passed": is_good,
            "seconds": round(seconds, 4),
            "checks": [finding.as_json() for finding in findings],
        }
        sys.stdout.write(json.dumps(report) + os.linesep)
    else:
        print_findings(results(), findings[shown.printed :])
        failed = sum(finding.state == "failed" for finding in findings)
        said = f"{failed} of {len(findings)} checks failed" if failed else "every check that applies passed"
        results().print(f"\n{said} · {seconds:.1f} s")
    return 0 if is_good else 1


class _Shown:
    """Prints findings as they come, and on a terminal also the name of the running check."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self.printed = 0

    def __call__(self, check: Check, number: int, count: int, finding: Finding | None) -> None:
        """Called when a check begins (with None), and when it ended with a finding."""
        if self._is_quiet:
            return
        aside = remarks()
        self.clear()
        if finding is not None:
            print_findings(results(), [finding])
            self.printed += 1
        elif aside.is_terminal:
            aside.print(Text(f"… {number} of {count}: {check.name}", style="dim"), end="\r")

    def clear(self) -> None:
        """Erase the line with the running check."""
        aside = remarks()
        if not self._is_quiet and aside.is_terminal:
            aside.print(" " * min(aside.width - 1, 60), end="\r")


async def check_environment(target: str, asked: CheckRequest, on_check: OnCheck | None = None) -> list[Finding]:
    """Check an environment: an installed one with its own interpreter, any other in this process.

    Raises:
        UsageError: the environment cannot be hosted with these options.
    """
    installation = find_installation(target)
    if installation is not None:
        from rollouthub_registry.check.installed_check import check_installed  # it uses what is here

        await to_thread.run_sync(installations().verify, installation)
        return await check_installed(installation, asked)
    async with AsyncExitStack() as stack:
        models = await open_roles(stack, asked.roles)
        return await find_and_check(target, asked, models, chosen_checks(asked.only), on_check=on_check)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print a line for each check, and for a failed one what was seen and how to fix it."""
    width = max(len(check.name) for check in CHECKS)
    for finding in findings:
        mark, style = _MARKS[finding.state]
        says = f"{finding.title}: {finding.says}" if finding.state == "failed" else finding.says or finding.title
        line = Text.assemble((mark, style), "  ", (f"{finding.check:<{width}}  ", "bold"))
        line.append(one_line(says), style="dim" if finding.state == "not_applicable" else "")
        console.print(line)
        margin = " " * (width + 5)
        for detail in finding.details[:_SHOWN]:
            console.print(Text(margin + one_line(detail), style="dim"))
        if len(finding.details) > _SHOWN:
            console.print(Text(f"{margin}… and {len(finding.details) - _SHOWN} more", style="dim"))
        if finding.fix is not None:
            console.print(Text(f"{margin}→ {finding.fix}", style="yellow"))
