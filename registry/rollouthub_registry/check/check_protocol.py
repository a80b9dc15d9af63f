"""The protocol between the hub and the check of an installed class: one line of JSON each way.

The class is imported by the interpreter that it is installed for, in a process of its own: `hub check FILE
--from-stdin` reads a `CheckOrder` from stdin and answers with a `CheckAnswer` on what was its stdout. What the
environment prints goes to stderr: it cannot answer in the hub's place.
"""

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from pydantic import JsonValue, ValidationError

from rollouthub import Model
from rollouthub.errors import ConfigError, HubError
from rollouthub.event_loop import run_async
from rollouthub.frozen import Frozen
from rollouthub.hosting.launch import RoleEndpoint
from rollouthub.hosting.role_endpoints import ask_role
from rollouthub_registry.check.check_finding import Finding, State
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_run import chosen_checks, find_and_check

MOST_ORDER_BYTES = 2**20
MOST_TEXT = 2000
"""Characters of each thing that is said; what is longer is cut."""
MOST_DETAILS = 100


class CheckOrder(Frozen):
    """What to check."""

    split: str | None
    limit: int
    seed: int
    settings: dict[str, JsonValue]
    roles: dict[str, RoleEndpoint]
    only: tuple[str, ...]


class Told(Frozen):
    """A finding on its way."""

    check: str
    title: str
    state: State
    says: str
    details: tuple[str, ...]
    fix: str | None
    seconds: float

    @classmethod
    def of(cls, finding: Finding) -> "Told":
        """A finding, cut to what a reader needs."""
        return cls(
            check=finding.check,
            title=finding.title,
            state=finding.state,
            says=finding.says[:MOST_TEXT],
            details=tuple(detail[:MOST_TEXT] for detail in finding.details[:MOST_DETAILS]),
            fix=finding.fix,
            seconds=finding.seconds,
        )

    @property
    def finding(self) -> Finding:
        """As it was found."""
        return Finding(self.check, self.title, self.state, self.says, self.details, self.fix, self.seconds)


class CheckAnswer(Frozen):
    """What was found, or why nothing could be checked."""

    findings: tuple[Told, ...] = ()
    error: str | None = None


def check_ordered(file: str) -> int:
    """Check what the order on stdin says; the exit code."""
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
        return await find_and_check(str(Path(file)), asked, models, chosen_checks(order.only))
