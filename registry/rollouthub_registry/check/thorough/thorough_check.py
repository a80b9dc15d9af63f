"""Runs `hub check --thorough`: the quick checks, then the attacks; prints progress and writes the report."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.errors import ConfigError, HubError, UnknownNameError, UsageError, raise_first_error
from rollouthub.event_loop import run_async
from rollouthub.hosting.launch import TOKEN_VARIABLE, is_address
from rollouthub.models.credentials import load_credentials
from rollouthub.plugins.components import component
from rollouthub.text import one_line
from rollouthub_registry.check.check_finding import Check, Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_run import check_environment, print_findings
from rollouthub_registry.check.thorough.attack import Attack, AttackResult, State
from rollouthub_registry.check.thorough.attack_context import Tools
from rollouthub_registry.check.thorough.attack_report import Report
from rollouthub_registry.check.thorough.attack_setup import AttackRequest, open_attack_context
from rollouthub_registry.check.thorough.attacks import ATTACKS
from rollouthub_registry.check.thorough.campaign import attack_all
from rollouthub_registry.check.thorough.html_page import page

TIME_LIMIT_SECONDS = 900.0
INTERRUPTED = 130
_SHOWN = 5
_WIDEST = 200
"""Columns of the progress line that is overwritten, used where the output is no terminal but colours are forced."""
_MARKS: dict[State, tuple[str, str]] = {
    "held": ("✓", "green"),
    "broke": ("✗", "bold red"),
    "not_tried": ("–", "yellow"),
}


@dataclass(frozen=True)
class ThoroughCheckRequest:
    """The options of the command."""

    target: str
    check: CheckRequest = field(default_factory=CheckRequest)
    """Options of the quick checks; `only` holds names of attacks here."""
    seconds: float = TIME_LIMIT_SECONDS
    report: Path | None = None
    as_json: bool = False
    tools: Tools = field(default_factory=Tools)


def thorough_command(asked: ThoroughCheckRequest) -> int:
    """Check and attack an environment, and print the report; returns the exit code.

    Raises:
        UsageError: the environment cannot be served with these options.
    """
    attacks = _chosen(asked.check.only)
    if asked.report is not None and not asked.report.absolute().parent.is_dir():
        raise ConfigError(f"--report {str(asked.report)!r}: there is no folder to write it to")
    report = Report(asked.target, len(attacks))
    began = time.perf_counter()
    screen = _Screen(results(), remarks(), len(attacks), is_quiet=asked.as_json)
    try:
        run_async(_run_until_interrupted, asked, attacks, report, screen)
    except KeyboardInterrupt:  # before anything was begun
        report.is_interrupted = True
    except UsageError:
        raise
    except HubError as error:
        report.error = str(error)
    report.seconds = time.perf_counter() - began
    _write(asked, report)
    screen.sum_up(report, asked.report)
    if report.is_interrupted:
        return INTERRUPTED
    return 0 if report.is_passed else 1


def _chosen(only: Sequence[str]) -> list[Attack]:
    cheats: Callable[[], Sequence[Attack]] = component("cheats")
    known = {attack.name: attack for attack in (*ATTACKS, *cheats())}
    for name in only:
        if name not in known:
            raise UnknownNameError("attack", name, known)
    return [attack for attack in known.values() if not only or attack.name in only]


async def _run_until_interrupted(
    asked: ThoroughCheckRequest, attacks: Sequence[Attack], report: Report, screen: "_Screen"
) -> None:
    """Run until done or Ctrl-C, which ends everything; asyncio reports a Ctrl-C once, and a time limit may swallow
    it.
    """
    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, report, tasks.cancel_scope)
        await _run(asked, attacks, report, screen)
        tasks.cancel_scope.cancel()


async def _watch(report: Report, everything: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            report.is_interrupted = True
            everything.cancel()


async def _run(asked: ThoroughCheckRequest, attacks: Sequence[Attack], report: Report, screen: "_Screen") -> None:
    deadline = anyio.current_time() + asked.seconds
    if asked.check.only:
        report.no_findings = "attacks were chosen with --only"
    elif is_address(asked.target):
        report.no_findings = "its class is not installed here: the server runs elsewhere"
    else:
        screen.say("quick checks")
        roles = {role: str(name) for role, name in asked.check.roles.items()}
        quick = replace(asked.check, roles=roles, only=())
        report.findings = await check_environment(asked.target, quick, screen.found)
        screen.show_findings(report)
    credentials = load_credentials(os.environ, Path.cwd())
    order = AttackRequest(
        target=asked.target,
        split=asked.check.split,
        seed=asked.check.seed,
        settings=asked.check.settings,
        roles={role: str(name) for role, name in asked.check.roles.items()},
        tools=asked.tools,
        control_token=credentials.key(TOKEN_VARIABLE),
        credentials=credentials,
    )
    screen.say(f"serving {asked.target}")
    async with open_attack_context(order) as context:
        report.info, report.split, report.redact = context.target.host.info, context.target.split, context.redact
        await attack_all(context, attacks, deadline, screen.on_attack, report.verdicts)


def _write(asked: ThoroughCheckRequest, report: Report) -> None:
    if asked.report is not None:
        asked.report.write_text(page(report), encoding="utf-8")
    if asked.as_json:
        sys.stdout.write(json.dumps(report.as_json()) + os.linesep)


class _Screen:
    """Prints each attack's result, and on a terminal also the name of the running attack."""

    def __init__(self, out: Console, aside: Console, count: int, *, is_quiet: bool) -> None:
        self._out, self._aside, self._count, self._done = out, aside, count, 0
        self._is_quiet = is_quiet
        self._printed = 0
        self._room = min(aside.width - 1, _WIDEST)

    def say(self, words: str) -> None:
        """Show a progress line, replaced by the next output."""
        if self._aside.is_terminal:
            self._aside.print(Text(f"… {words}"[: self._room], style="dim"), end="\r")

    def _clear(self) -> None:
        if self._aside.is_terminal:
            self._aside.print(" " * self._room, end="\r")

    def found(self, check: Check, number: int, count: int, finding: Finding | None) -> None:
        """Called when a quick check begins, or has ended."""
        if finding is None:
            self.say(f"quick check {number} of {count}: {check.name}")
            return
        self._clear()
        self._printed += 1
        if not self._is_quiet:
            print_findings(self._out, [finding])

    def show_findings(self, report: Report) -> None:
        """Print the quick checks' remaining findings, as `hub check` does."""
        self._clear()
        if not self._is_quiet:
            print_findings(self._out, report.findings[self._printed :])
            self._out.print()

    def on_attack(self, attack: Attack, verdict: AttackResult | None) -> None:
        """Called when an attack begins, or has ended."""
        if verdict is None:
            self.say(f"{self._done + 1} of {self._count}: {attack.name}")
            return
        self._done += 1
        self._clear()
        if not self._is_quiet:
            self._show(verdict)

    def _show(self, verdict: AttackResult) -> None:
        mark, style = _MARKS[verdict.state]
        leak = verdict.leak if verdict.leak.startswith("L") else ""
        line = Text.assemble((mark, style), f"  {leak:<4}", (f"{verdict.attack:<20}  ", "bold"))
        line.append(one_line(verdict.says), style="" if verdict.state == "broke" else "dim")
        self._out.print(line)
        margin = " " * 29
        for problem in verdict.problems[:_SHOWN]:
            self._out.print(Text(margin + one_line(problem.says), style="red"))
        if len(verdict.problems) > _SHOWN:
            self._out.print(Text(f"{margin}… and {len(verdict.problems) - _SHOWN} more", style="dim"))
        for part in verdict.left_out[:_SHOWN]:
            self._out.print(Text(f"{margin}not tried: {one_line(part)}", style="dim"))

    def sum_up(self, report: Report, page_path: Path | None) -> None:
        """Print the closing lines of the report."""
        self._clear()
        if self._is_quiet:
            return
        if report.error is not None:
            self._out.print(Text(f"the attacks were not made: {one_line(report.error)}", style="bold red"))
        self._out.print(Text(f"\n{report.summary} · {report.seconds:.1f} s"))
        if page_path is not None:
            self._out.print(Text(f"report: {page_path}"))
