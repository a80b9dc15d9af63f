"""Audits made tasks as `hub audit` does, and compares what was found with what is known."""

from collections.abc import Sequence
from typing import Protocol

import anyio

from rollouthub import BadRow, Deadlines, EnvironmentConfig
from rollouthub.engine.run_request import RunRequest
from rollouthub.environment import AnyEnvironment
from rollouthub.hosting import InProcessHost
from rollouthub.protocols import TaskCard
from rollouthub.sandbox import SandboxProvider
from rollouthub_registry.audit.audit_run import AuditRequest, audit_task, chosen_probes
from rollouthub_registry.audit.set_facts import read_facts
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.audit.task_under_audit import TaskUnderAudit
from rollouthub_registry.check.defect_class import DefectClass

DEADLINES = Deadlines(verify=60)


class Known(Protocol):
    """What is known of a task."""

    @property
    def name(self) -> str: ...
    @property
    def defect(self) -> DefectClass | None:
        """The class of its defect; None if it has none."""
        ...

    @property
    def also(self) -> frozenset[DefectClass]:
        """Further classes that follow from the same defect."""
        ...


def class_name(kind: str) -> str:
    """A name for an environment of tasks of one kind."""
    return kind.title().replace("_", "")


def wrong(known: Known, audit: TaskAudit) -> str | None:
    """What the audit of a task missed or found too much; None if it is right."""
    found = {finding.defect for finding in audit.defects}
    says = "; ".join(f"{each.probe} ({each.defect}): {each.says} [{each.evidence!r:.300}]" for each in audit.defects)
    if audit.fault is not None:
        return f"{known.name}: not audited to its end: {audit.fault}"
    if known.defect is not None and known.defect not in found:
        tried = "; ".join(f"{each.probe} {each.state}: {each.says}" for each in audit.results)
        return f"{known.name}: {known.defect} was not found, but {says or 'nothing'}. Tried: {tried:.1500}"
    if more := found - {known.defect} - known.also:
        return f"{known.name}: {', '.join(sorted(more))} was found besides {known.defect}: {says}"
    return None


async def audited(
    environment: AnyEnvironment,
    *,
    only: Sequence[str] = (),
    names: Sequence[str] = (),
    config: EnvironmentConfig | None = None,
    sandboxes: SandboxProvider | None = None,
    at_once: int = 4,
) -> list[TaskAudit]:
    """The audits of an environment's tasks, by all probes and cheats."""
    host = InProcessHost("made", environment, config, None, sandboxes)
    cards = [card for card in host.cards("test", 0) if not isinstance(card, BadRow)]
    seeds = {card.public.id: 0 for card in cards}
    facts = await read_facts(host, cards[:40], seeds, DEADLINES)
    probes = chosen_probes(AuditRequest(RunRequest(environments=("made",)), tuple(only)))
    chosen: list[TaskCard] = [card for card in cards if not names or card.public.id in names]
    found: dict[str, TaskAudit] = {}
    limiter = anyio.CapacityLimiter(at_once)

    async def one(card: TaskCard) -> None:
        async with limiter:
            found[card.public.id] = await audit_task(TaskUnderAudit(host, card, 0, DEADLINES, facts), probes)

    async with anyio.create_task_group() as group:
        for card in chosen:
            group.start_soon(one, card)
    return [found[card.public.id] for card in chosen]
