"""The output of `hub publish`: a line for each step on stderr, the result on stdout."""

import json
import os
import shlex
import sys
from typing import Any

from rich.status import Status
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.errors import HubError
from rollouthub.text import one_line
from rollouthub_registry.bundle.attestation import audit_words
from rollouthub_registry.check.check_run import print_findings
from rollouthub_registry.publish.publication import PublishRequest, PublishResult, publish
from rollouthub_registry.publish.publish_error import ChecksFailed
from rollouthub_registry.publish.steps import Steps

_WIDTH = 24
_SHOWN = 20


class Silent:
    """Progress display that shows nothing."""

    def begun(self, what: str) -> None:
        """Called when a step begins."""

    def noted(self, what: str) -> None:
        """Called with a remark during a step."""

    def done(self, what: str, said: str, seconds: float) -> None:
        """Called when a step has succeeded."""

    def failed(self, what: str) -> None:
        """Called when a step has failed."""


class Terminal:
    """Progress display with one line per finished step, and on a terminal the current step."""

    def __init__(self) -> None:
        self._console = remarks()
        self._status: Status | None = None

    def begun(self, what: str) -> None:
        """Show that a step begins."""
        if self._console.is_terminal:
            self._status = self._console.status(Text(one_line(what)))
            self._status.start()

    def noted(self, what: str) -> None:
        """Show a remark."""
        if self._status is not None:
            self._status.update(Text(one_line(what)))

    def done(self, what: str, said: str, seconds: float) -> None:
        """Show that a step has succeeded."""
        self._line(("✓", "green"), what, f"{one_line(said)} · {seconds:.1f} s" if said else f"{seconds:.1f} s")

    def failed(self, what: str) -> None:
        """Show that a step has failed."""
        self._line(("✗", "bold red"), what, "")

    def _line(self, mark: tuple[str, str], what: str, said: str) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._console.print(Text.assemble(mark, "  ", (f"{one_line(what):<{_WIDTH}}  ", "bold"), (said, "dim")))


def publish_command(order: PublishRequest, *, as_json: bool, quiet: bool) -> int:
    """Publish and print the result; returns the exit code.

    Raises:
        HubError: publishing failed.
    """
    steps = Steps(Silent() if quiet else Terminal())
    try:
        made = publish(order, os.environ, steps)
    except ChecksFailed as error:
        if as_json:
            _print_json(
                {
                    "published": False,
                    "error": str(error),
                    "checks": [each.as_json() for each in error.findings],
                    "problems": list(error.problems),
                }
            )
        else:
            print_findings(remarks(), [each for each in error.findings if each.state == "failed"])
            for problem in error.problems[:_SHOWN]:
                remarks().print(Text.assemble(("✗", "bold red"), f"  {problem}"), soft_wrap=True)
            if len(error.problems) > _SHOWN:
                remarks().print(Text(f"   … and {len(error.problems) - _SHOWN} more; --json lists all", style="dim"))
            _say_why(error)
        return 1
    except KeyboardInterrupt:
        remarks().print("nothing was published", style="yellow")
        raise
    if as_json:
        _print_json(_as_json(made, order, steps))
    elif not quiet:
        _show(made, order)
    return 0


def _say_why(error: HubError) -> None:
    remarks().print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)


def _print_json(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + os.linesep)


def _as_json(made: PublishResult, order: PublishRequest, steps: Steps) -> dict[str, Any]:
    passed = made.passed
    audit = passed.audited.summary(passed.findings) if passed is not None and passed.audited is not None else None
    return {
        "published": made.seen_at is not None,
        "was_there": made.was_there,
        "release": str(made.release),
        "name": str(made.release.package),
        "version": str(made.release.version),
        "registry": made.registry,
        "url": made.seen_at,
        "bundle": str(made.bundle) if made.bundle is not None else None,
        "statement": str(made.statement) if made.statement is not None else None,
        "digest": made.digest,
        "bytes": made.size,
        "key_id": made.key_id,
        "checks_passed": None if passed is None else passed.is_good,
        "checks": [] if passed is None else [finding.as_json() for finding in passed.findings],
        "audit": None if audit is None else audit.model_dump(mode="json"),
        "tools_digest": None if passed is None else passed.tools_digest,
        "baselines": [baseline.model_dump(mode="json") for baseline in made.baselines],
        "install": None if made.install is None else shlex.join(made.install),
        "dry_run": order.is_rehearsal,
        "steps": [vars(step) for step in steps.all],
    }


def _show(made: PublishResult, order: PublishRequest) -> None:
    console = results()
    rows: list[tuple[str, str]] = [("digest", made.digest), ("key", made.key_id)]
    if made.passed is not None:
        failing = [finding.check for finding in made.passed.findings if finding.state == "failed"]
        rows.append(("checks", f"marked as failing: {', '.join(failing)}" if failing else "passed"))
        audit = None if made.passed.audited is None else made.passed.audited.summary(made.passed.findings)
        rows.append(("audit", "left out (--quick)" if audit is None else audit_words(audit)))
    rows += [
        ("baseline", f"{each.model}: mean reward {each.mean_reward:.4g} of {each.samples} samples")
        for each in made.baselines
    ]
    if made.bundle is not None:
        rows += [("bundle", str(made.bundle)), ("statement", str(made.statement))]
    if made.install is not None:
        rows.append(("install", shlex.join(made.install)))
    console.print(Text(_headline(made, order), style="bold"))
    for name, said in rows:
        console.print(Text.assemble(f"  {name:<10}", one_line(said, 2000)), soft_wrap=True)


def _headline(made: PublishResult, order: PublishRequest) -> str:
    if made.was_there:
        return f"{made.release} is at {made.registry} already, just as it is here"
    if order.is_rehearsal:
        return f"{made.release} could be published; --dry-run published nothing"
    if made.bundle is not None:
        return f"{made.release} is written, and published nowhere"
    return f"{made.release} is published at {one_line(made.seen_at or '')}"
