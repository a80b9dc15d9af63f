"""Attacks an installed bundle over the wire and audits some of its tasks, before it is published."""

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from rollouthub.errors import raise_first_error
from rollouthub.hosting.role_endpoints import serve_roles_for
from rollouthub.hosting.wall.wall import choice_for
from rollouthub.hosting.wall.walled_start import program_of
from rollouthub.plugins.installed import Installation
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.text import one_line
from rollouthub_registry.audit.audit_run import SetAudit, facts_of
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.cheats.cheat import as_probe
from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.audit.probes import PROBES
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.bundle.attestation import AuditSummary, ClassResult
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_suite import open_roles
from rollouthub_registry.check.defect_class import DEFECTS
from rollouthub_registry.check.thorough.attack import Attack, AttackResult
from rollouthub_registry.check.thorough.attack_context import Tools
from rollouthub_registry.check.thorough.attack_setup import attack_context_of
from rollouthub_registry.check.thorough.attacks import ATTACKS
from rollouthub_registry.check.thorough.campaign import attack_all
from rollouthub_registry.check.thorough.target import in_own_process, reach

ATTACK_SECONDS, AUDIT_SECONDS = 300.0, 300.0
"""Most seconds for all attacks, and for the audit of tasks; what is left by then is not tried."""
_NO_TWIN = "what is published is attacked as it is installed, without canaries; the quick checks plant some"
_REPEATS = 2
_CONCURRENCY = 4


@dataclass(frozen=True)
class Audited:
    """What attacks and the audit of tasks found."""

    attacks: tuple[AttackResult, ...] = ()
    audits: tuple[TaskAudit, ...] = ()
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def problems(self) -> list[str]:
        """What broke, a line each, for the publisher alone."""
        found = [
            f"{result.attack} ({result.leak}): {one_line(problem.says)}"
            for result in self.attacks
            for problem in result.problems
        ]
        for audit in self.audits:
            found += [f"{audit.task}: {each.probe} ({each.defect}): {one_line(each.says)}" for each in audit.defects]
        return found

    def summary(self, findings: Sequence[Finding] = ()) -> AuditSummary:
        """The result by class, as it is published: quick checks, attacks and audits together."""
        return AuditSummary(
            at=self.at,
            tasks=len(self.audits),
            defective=sum(audit.verdict == "defective" for audit in self.audits),
            classes=tuple(_classes([*_tried(findings, self.attacks), *_audited(self.audits)])),
        )


def _tried(findings: Iterable[Finding], attacks: Iterable[AttackResult]) -> Iterable[tuple[str, bool]]:
    """Class, and whether it broke, of each check and attack that was made."""
    for finding in findings:
        if finding.state != "not_applicable":
            yield finding.defect, finding.state == "failed"
    for result in attacks:
        if result.state != "not_tried":
            yield result.leak, result.state == "broke"


def _audited(audits: Iterable[TaskAudit]) -> Iterable[tuple[str, bool]]:
    for audit in audits:
        for result in audit.results:
            broken = {finding.defect for finding in result.findings if finding.severity == "defect"}
            yield from ((name, True) for name in sorted(broken))
            if result.state != "not_tried" and result.defect not in broken:
                yield result.defect, False


def _classes(tried: Sequence[tuple[str, bool]]) -> Iterable[ClassResult]:
    for name in DEFECTS:
        results = [is_broken for defect, is_broken in tried if defect == name]
        state = "broke" if any(results) else "held" if results else "not_tried"
        yield ClassResult(defect=name, state=state, tried=len(results), broke=sum(results))


async def attack_and_audit(
    installation: Installation,
    asked: CheckRequest,
    note: Callable[[str], None] = lambda _: None,
    *,
    probes: Sequence[Probe] | None = None,
    attacks: Sequence[Attack] = ATTACKS,
) -> Audited:
    """Serve an installed environment from a process of its own, attack it over the wire, and audit its first tasks.

    `probes` are all of the hub's probes and cheats if None.

    Raises:
        UsageError: the environment cannot be served with these options.
        TaskError: its server does not start.
    """
    token = secrets.token_urlsafe(32)
    async with raise_first_error(), AsyncExitStack() as stack:
        models = await open_roles(stack, asked.roles)
        choice = choice_for(installation, asked.wall)
        roles = await stack.enter_async_context(serve_roles_for(choice, models))
        program = await program_of(installation, asked.settings, roles, choice)
        serving = in_own_process(str(installation.file), asked.settings, roles, token, program)
        ready = await stack.enter_async_context(serving)
        agent_url = None if program.wall is None else ready.agent_url
        reaching = reach(ready.control_url, token, asked.split, asked.seed, asked.limit, ready.pid, agent_url)
        target = await stack.enter_async_context(reaching)
        target.writable = None if program.wall is None or program.view is None else program.view.home
        audits = await _audit(target.host, target.cards, asked.seed, note, probes)
        context = await attack_context_of(stack, target, [], _NO_TWIN, Tools())
        verdicts: list[AttackResult] = []

        def on_attack(attack: Attack, verdict: AttackResult | None) -> None:
            if verdict is None:
                note(f"attack {len(verdicts) + 1} of {len(attacks)}: {attack.name}")

        await attack_all(context, attacks, anyio.current_time() + ATTACK_SECONDS, on_attack, verdicts)
        return Audited(tuple(verdicts), tuple(audits))


async def _audit(
    host: EnvironmentHost,
    cards: Sequence[TaskCard],
    seed: int,
    note: Callable[[str], None],
    chosen: Sequence[Probe] | None,
) -> list[TaskAudit]:
    probes = [*PROBES, *(as_probe(cheat) for cheat in all_cheats())] if chosen is None else chosen
    done: list[TaskAudit] = []

    def keep(audit: TaskAudit) -> None:
        done.append(audit)
        note(f"{len(done)} of {len(cards)} tasks audited")

    async def each() -> AsyncIterator[TaskCard]:
        for card in cards:
            yield card

    deadlines = host.info.deadlines
    with anyio.move_on_after(AUDIT_SECONDS):
        facts = await facts_of(host, cards, seed, deadlines)
        await SetAudit(host, seed, deadlines, facts, probes, _REPEATS, _CONCURRENCY).run(each(), keep)
    return done
