"""Runs the checks of an environment and prints their findings."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from anyio import to_thread
from rich.console import Console
from rich.text import Text

from rollouthub import Model
from rollouthub.cli.console import remarks, results
from rollouthub.errors import ConfigError, HubError, UnknownNameError, describe
from rollouthub.event_loop import run_async
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import open_sandboxes
from rollouthub.hosting.open_host import configured
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import load_credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.installed import find_installation, installations
from rollouthub.text import one_line
from rollouthub_registry.check.check_finding import Broken, Check, Finding, NotApplicable, State
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.checks import CHECKS
from rollouthub_registry.check.deadline import Spent, in_time

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


def chosen_checks(only: Sequence[str]) -> list[Check]:
    """The checks of these names; all checks if there are none.

    Raises:
        UnknownNameError: a name is not a check's.
    """
    known = {check.name: check for check in CHECKS}
    for name in only:
        if name not in known:
            raise UnknownNameError("check", name, known)
    return [known[name] for name in only] or list(CHECKS)


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


Told = Callable[[Check, int, int, Finding | None], None]
"""Called when a check begins (with None for the finding) and when it ends; gets its number and the number of checks."""


async def check_environment(target: str, asked: CheckRequest, told: Told | None = None) -> list[Finding]:
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
        return await find_and_check(target, asked, models, chosen_checks(asked.only), told=told)


async def open_roles(stack: AsyncExitStack, roles: Mapping[str, str]) -> dict[str, Model]:
    """Models by role for an environment that asks models itself; they are closed with the stack.

    Raises:
        UsageError: there is no such model, or its credentials are missing.
    """
    models: dict[str, Model] = {}
    credentials = load_credentials(os.environ, Path.cwd()) if roles else None
    for role, name in roles.items():
        assert credentials is not None
        models[role] = await stack.enter_async_context(open_model(ModelConfig(name=name), credentials))
    return models


async def find_and_check(
    target: str,
    asked: CheckRequest,
    models: Mapping[str, Model],
    checks: Sequence[Check],
    python: str | None = None,
    told: Told | None = None,
) -> list[Finding]:
    """Check an environment that this process hosts; `python` replaces `{python}` in the command of a declared server.

    Raises:
        UsageError: the environment cannot be hosted with these options.
    """
    found = find_environment(target, python)
    config = configured(found, asked.settings)
    async with AsyncExitStack() as stack:
        try:
            await found.environment.prepare(config)
            sandboxes = await stack.enter_async_context(open_sandboxes(found.environment, config))
            subject = CheckedEnvironment(
                found.name,
                found.environment,
                config,
                split=asked.split,
                limit=asked.limit,
                seed=asked.seed,
                models=models,
                make_host=partial(InProcessHost, sandboxes=sandboxes),
            )
        except HubError:
            raise
        except Exception as error:
            raise ConfigError(f"environment {found.name!r} cannot be hosted: {error}") from error
        return await run_checks(subject, checks, told)


async def run_checks(
    subject: CheckedEnvironment, checks: Sequence[Check] = CHECKS, told: Told | None = None
) -> list[Finding]:
    """Run checks one after the other, each with a time limit."""
    findings: list[Finding] = []
    for number, check in enumerate(checks, 1):
        if told is not None:
            told(check, number, len(checks), None)
        findings.append(await _run(subject, check))
        if told is not None:
            told(check, number, len(checks), findings[-1])
    return findings


async def _run(subject: CheckedEnvironment, check: Check) -> Finding:
    started = time.perf_counter()
    state: State = "passed"
    details: tuple[str, ...] = ()
    fix: str | None = None
    try:
        says = await in_time(partial(check.run, subject))
    except NotApplicable as reason:
        state, says = "not_applicable", str(reason)
    except Broken as problem:
        state, says, details, fix = "failed", str(problem), problem.details, problem.fix
    except Spent as spent:
        state, says, fix = "failed", spent.says, spent.fix
    except Exception as error:
        # Anybody's code: whatever it raises is what was found.
        state, says = "failed", f"the environment raised {describe(error)}"
        fix = "mend what raised it, then check again"
    return Finding(check.name, check.title, state, says, details, fix, time.perf_counter() - started)


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
