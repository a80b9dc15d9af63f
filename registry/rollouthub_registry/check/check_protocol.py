"""The protocol between the hub and the check of an installed class: one line of JSON each way.

The class is imported by the interpreter that it is installed for, in a process of its own: `hub check FILE
--from-stdin` reads a `CheckOrder` from stdin and answers with a `CheckAnswer` on stdout. What the environment prints
goes to stderr, so that it cannot forge the answer.
"""

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import JsonValue, ValidationError

from rollouthub import Model
from rollouthub.errors import ConfigError, HubError
from rollouthub.event_loop import run_async
from rollouthub.hosting.launch import RoleEndpoint
from rollouthub.hosting.role_endpoints import ask_role
from rollouthub.values import Frozen
from rollouthub_registry.check.check_finding import Finding, State
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_suite import chosen_checks, find_and_check
from rollouthub_registry.check.defect_class import DefectClass

MOST_ORDER_BYTES = 2**20
MOST_TEXT = 2000
"""Most characters of each text of a finding; the rest is cut."""
MOST_DETAILS = 100


class CheckOrder(Frozen):
    """A request to check an environment."""

    split: str | None
    limit: int
    seed: int
    settings: dict[str, JsonValue]
    roles: dict[str, RoleEndpoint]
    only: tuple[str, ...]
    python: str | None = None
    """The interpreter that `{python}` stands for in an env.toml."""


class Told(Frozen):
    """A finding as it is sent."""

    check: str
    defect: DefectClass
    title: str
    state: State
    says: str
    details: tuple[str, ...]
    fix: str | None
    seconds: float

    @classmethod
    def of(cls, finding: Finding) -> "Told":
        """The finding with its texts and details cut to their maximum lengths."""
        return cls(
            check=finding.check,
            defect=finding.defect,
            title=finding.title,
            state=finding.state,
            says=finding.says[:MOST_TEXT],
            details=tuple(detail[:MOST_TEXT] for detail in finding.details[:MOST_DETAILS]),
            fix=finding.fix,
            seconds=finding.seconds,
        )

    @property
    def finding(self) -> Finding:
        """The finding that was sent."""
        return Finding(self.check, self.defect, self.title, self.state, self.says, self.details, self.fix, self.seconds)


class CheckAnswer(Frozen):
    """The findings, or why nothing could be checked."""

    findings: tuple[Told, ...] = ()
    error: str | None = None


def check_ordered(file: str) -> int:
    """Run the check requested on stdin; returns the exit code."""
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        order = _read_order()
        findings = run_async(_check, file, order)
        said = CheckAnswer(findings=tuple(Told.of(finding) for finding in findings))
    except HubError as error:
        said = CheckAnswer(error=str(error)[:MOST_TEXT])
    with answer:
        answer.write(said.model_dump_json() + "\n")
    return 0 if said.error is None else 2


def _read_order() -> CheckOrder:
    line = sys.stdin.buffer.readline(MOST_ORDER_BYTES)
    try:
        return CheckOrder.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(f"the line on stdin orders no check: {error.error_count()} problems") from None


async def _check(file: str, order: CheckOrder) -> list[Finding]:
    async with AsyncExitStack() as stack:
        models: dict[str, Model] = {}
        for role, endpoint in order.roles.items():
            models[role] = await stack.enter_async_context(ask_role(endpoint))
        asked = CheckRequest(order.split, order.limit, order.seed, order.settings, only=order.only)
        return await find_and_check(str(Path(file)), asked, models, chosen_checks(order.only), order.python)
