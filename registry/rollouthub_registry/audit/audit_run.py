"""Audits the tasks of environments: several at once, each by all probes and cheats, kept in a journal as they end."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any

import anyio

from rollouthub.engine.episode_seed import episode_seed
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, HubError, UnknownNameError, describe, raise_first_error
from rollouthub.limits import Deadlines
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.accepted_tasks import prompt_digest
from rollouthub.protocols import IDLE_AGENT, EnvironmentHost, TaskCard
from rollouthub.task import BadRow
from rollouthub.text import plain
from rollouthub_registry.audit.audit_journal import AuditHead, AuditJournal
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.cheats.cheat import Cheat, as_probe
from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.audit.probes import PROBES
from rollouthub_registry.audit.set_facts import FIRST, FIRST_IN_SANDBOXES, SetFacts, read_facts
from rollouthub_registry.audit.task_finding import MOST_TEXT, ProbeResult, TaskAudit
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit

CONCURRENCY = 8


@dataclass(frozen=True)
class AuditRequest:
    """What to audit, and how."""

    run: RunRequest
    """The environments, their settings and the choice of tasks, as `hub run` takes them."""
    only: tuple[str, ...] = ()
    """Names of probes and cheats; empty for all."""
    cheats: tuple[Cheat, ...] = ()
    """Cheats besides those of the library."""
    repeats: int = 3
    concurrency: int = CONCURRENCY


@dataclass
class AuditProgress:
    """How far an audit is; filled while it runs."""

    planned: int = 0
    audits: list[TaskAudit] = field(default_factory=list[TaskAudit])
    head: AuditHead | None = None
    """What is audited; None until its environments were opened."""
    kept: int = 0
    """Number of tasks that an earlier start had audited."""
    bad_rows: int = 0


OnTask = Callable[[TaskAudit, AuditProgress], None]


def chosen_probes(request: AuditRequest) -> list[Probe]:
    """The probes and cheats of a request, in the order in which they run.

    Raises:
        UsageError: see `chosen`.
    """
    return chosen(request.only, request.cheats)


def chosen(only: Sequence[str], more: Sequence[Cheat]) -> list[Probe]:
    """The probes and cheats of these names, or all of them, and the further cheats, in the order in which they run.

    Raises:
        UnknownNameError: a name is neither a probe's nor a cheat's.
        ConfigError: a further cheat is called like another, or like a probe.
    """
    known = {probe.name: probe for probe in (*PROBES, *(as_probe(cheat) for cheat in all_cheats()))}
    for cheat in more:
        if known.setdefault(cheat.name, own := as_probe(cheat)) is not own:
            raise ConfigError(f"there is a probe or cheat {cheat.name!r} already; give the one you add another name")
    for name in only:
        if name not in known:
            raise UnknownNameError("probe or cheat", name, known)
    return [probe for probe in known.values() if not only or probe.name in only]


async def audit(
    request: AuditRequest, credentials: Credentials, folder: Path, progress: AuditProgress, on_task: OnTask
) -> AuditHead:
    """Audit every chosen task that the journal in `folder` does not hold yet; `progress` is filled as tasks end.

    Raises:
        UsageError: an environment cannot be hosted, a name is unknown, or the folder holds another audit.
    """
    probes = chosen_probes(request)
    plan = make_plan(request.run.model_copy(update={"model": None, "agent": IDLE_AGENT, "skip_bad": True}))
    async with open_plan(plan, credentials) as opened:
        progress.planned, progress.bad_rows = await opened.count()
        progress.head = head = _head(request, opened, probes)
        journal = AuditJournal(folder)
        before = journal.begin(head)
        journal.start(progress.planned, progress.bad_rows)

        def keep(done: TaskAudit) -> None:
            journal.append(done)
            progress.audits.append(done)
            on_task(done, progress)

        for environment in opened.environments:
            await _audit_environment(request, opened, environment, probes, before, progress, keep)
    return head


def _head(request: AuditRequest, opened: OpenPlan, probes: Sequence[Probe]) -> AuditHead:
    settings: dict[str, Any] = {
        "set": {each.host.info.name: each.host.info.config for each in opened.environments},
        "split": {each.host.info.name: each.split for each in opened.environments},
        "seed": opened.plan.seed,
        "repeats": request.repeats,
        "probes": [probe.name for probe in probes],
        "cheats": {cheat.name: _digest(cheat) for cheat in request.cheats},
    }
    digests = {each.host.info.name: each.host.info.digest for each in opened.environments}
    return AuditHead(
        hub_version=version("rollouthub"),
        target=request.run.environments,
        folder=str(Path.cwd()),
        given=request.run.set,
        environments=digests,
        settings=settings,
    )


def _digest(cheat: Cheat) -> str:
    """A digest of the file of a cheat, so that a changed one is not taken for the one that was tried."""
    file = Path(cheat.act.__code__.co_filename) if isinstance(cheat.act, FunctionType) else None
    return "" if file is None or not file.is_file() else hashlib.sha256(file.read_bytes()).hexdigest()[:32]


async def _audit_environment(
    request: AuditRequest,
    opened: OpenPlan,
    environment: OpenEnvironment,
    probes: Sequence[Probe],
    before: dict[tuple[str, str], TaskAudit],
    progress: AuditProgress,
    keep: Callable[[TaskAudit], None],
) -> None:
    host, seed = environment.host, opened.plan.seed

    async def left() -> AsyncIterator[TaskCard]:
        async for card in _cards(opened, environment):
            done = before.get((host.info.name, card.public.id))
            if done is not None and done.digest == card.digest:
                progress.kept += 1
                progress.audits.append(done)
            else:
                yield card

    first: list[TaskCard] = []
    async for card in _cards(opened, environment):
        first.append(card)
        if len(first) == FIRST:
            break
    facts = await facts_of(host, first, seed, environment.deadlines)
    auditing = SetAudit(host, seed, environment.deadlines, facts, probes, request.repeats, request.concurrency)
    await auditing.run(left(), keep)


@dataclass(frozen=True)
class SetAudit:
    """The audit of the tasks of one hosted environment."""

    host: EnvironmentHost
    seed: int
    deadlines: Deadlines
    facts: SetFacts
    probes: Sequence[Probe]
    repeats: int = 3
    concurrency: int = CONCURRENCY

    async def run(self, cards: AsyncIterator[TaskCard], keep: Callable[[TaskAudit], None]) -> None:
        """Audit these tasks, several at once; `keep` is called as each ends."""
        limiter = anyio.Semaphore(self.concurrency)

        async def one(card: TaskCard) -> None:
            try:
                own = episode_seed(self.seed, self.host.info.name, card.split, card.public.id)
                task = TaskUnderAudit(self.host, card, own, self.deadlines, self.facts, self.repeats)
                keep(await audit_task(task, self.probes))
            finally:
                limiter.release()

        async with raise_first_error(), anyio.create_task_group() as tasks:
            async for card in cards:
                await limiter.acquire()
                tasks.start_soon(one, card)


async def _cards(opened: OpenPlan, environment: OpenEnvironment) -> AsyncIterator[TaskCard]:
    async for card in opened.tasks(environment):
        if not isinstance(card, BadRow):
            yield card


async def facts_of(host: EnvironmentHost, cards: Sequence[TaskCard], seed: int, deadlines: Deadlines) -> SetFacts:
    """Read the references of the first tasks: fewer where they open sandboxes, which the first of them shows."""
    if not cards:
        return SetFacts()
    seeds = {card.public.id: episode_seed(seed, host.info.name, card.split, card.public.id) for card in cards}
    async with host.open(cards[0], seed=seeds[cards[0].public.id], deadlines=deadlines) as episode:
        has_sandbox = bool(episode.sandboxes)
    chosen = cards[: FIRST_IN_SANDBOXES if has_sandbox else FIRST]
    return await read_facts(host, chosen, seeds, deadlines)


async def audit_task(task: TaskUnderAudit, probes: Sequence[Probe]) -> TaskAudit:
    """Try all probes on one task; whatever one raises is its finding, or, if the hub's own machinery broke, a fault."""
    began = time.monotonic()
    results: list[ProbeResult] = []
    fault: str | None = None
    for probe in probes:
        result, broke = await _try(task, probe)
        results.append(result)
        fault = fault or broke
    oracle = task.oracle_reward
    return TaskAudit(
        environment=task.host.info.name,
        split=task.card.split,
        task=task.card.public.id,
        digest=task.card.digest,
        prompt=prompt_digest(task.card.public),
        results=tuple(results),
        fault=fault,
        oracle_reward=oracle,
        verify_seconds=max(task.verify_seconds, default=None),
        verify_bytes=task.verify_bytes,
        episodes=task.episodes,
        seconds=time.monotonic() - began,
    )


async def _try(task: TaskUnderAudit, probe: Probe) -> tuple[ProbeResult, str | None]:
    task.begin(probe.name, probe.defect, probe.source)
    began, says, is_tried = time.monotonic(), "", True
    fault: str | None = None
    try:
        with anyio.fail_after(probe.seconds):
            says = await probe.run(task)
    except ProbeSkipped as reason:
        is_tried, says = False, str(reason)
    except TimeoutError:
        is_tried, says = False, f"not done after {probe.seconds:g} s"
        fault = f"{probe.name}: {says}"
    except HubError as error:
        is_tried, says = False, plain(str(error), MOST_TEXT)
        fault = f"{probe.name}: {says}"
    except Exception as error:
        # Anybody's cheat: whatever it raises is its own fault, and not the task's.
        is_tried, says = False, plain(describe(error), MOST_TEXT)
        fault = f"{probe.name}: {says}"
    state = "broke" if task.findings else "held" if is_tried else "not_tried"
    result = ProbeResult(
        probe=probe.name,
        defect=probe.defect,
        state=state,
        says=says,
        findings=tuple(task.findings),
        seconds=round(time.monotonic() - began, 4),
    )
    return result, fault
