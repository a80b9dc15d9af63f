"""The audit is measured: it finds every seeded defect, of the right class, and none where there is none."""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from rollouthub import SandboxedConfig
from rollouthub.sandbox import SandboxProvider
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_sandboxes.process import process_provider
from tests.audit.calibration import HARDENED, IN_MACHINES, MADE, SEEDED_OF_EACH
from tests.audit.machines import MachineTask, machines_of
from tests.audit.made_tasks import MadeTask, environment_of
from tests.audit.measuring import audited, class_name, wrong

RUNS = 3
SAMPLE = 3
"""Number of tasks of each kind in the default suite."""
QUICK_MACHINES = {
    "leaks_on_disk": ("cache", "tag", "variable"),
    "forged_rewards": ("kept-reward-file", "makefile"),
    "hardened_machines": ("errors-of-a-log", "write-twice"),
}
QUICK_PROBES = (
    "oracle", "null", "written-rewards", "edited-tests", "junk-files", "answers-in-image", "git-history",
    "environment-variables",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What broken verifiers raise is no news here, and there are thousands of it."""
    monkeypatch.setattr(logging.getLogger("rollouthub.hosting.local.environment_faults"), "disabled", True)


@asynccontextmanager
async def machines() -> AsyncGenerator[SandboxProvider]:
    """Sandboxes with files of their own."""
    async with process_provider(("namespaces",)) as provider:
        yield provider


def complaints(tasks: Sequence[MadeTask | MachineTask], audits: Sequence[TaskAudit]) -> list[str]:
    """What the audits missed, and what they found too much."""
    known = {task.name: task for task in tasks}
    return [said for each in audits if (said := wrong(known[each.task], each)) is not None]


def told(audits: Sequence[TaskAudit]) -> Mapping[str, object]:
    """What a run says of each task."""
    return {each.task: (each.verdict, sorted({finding.defect for finding in each.findings})) for each in audits}


def test_the_set_has_twenty_defects_of_each_class_and_fifty_tasks_without() -> None:
    tasks = [task for make in (*MADE.values(), *IN_MACHINES.values()) for task in make()]
    counts = Counter(task.defect for task in tasks)
    assert counts.pop(None) == HARDENED
    assert min(counts.values()) == SEEDED_OF_EACH, counts
    assert set(counts) >= {
        "oracle", "floor", "wrong-accepted", "right-refused", "flaky", "verifier", "files", "network", "prompt",
        "L1", "L4", "L6", "L7", "L8", "L9", "L11", "L12",
    }  # fmt: skip
    assert len({task.name for task in tasks}) > 0.9 * len(tasks), "variants differ"


@pytest.mark.parametrize("kind", MADE)
async def test_a_sample_of_each_kind_is_judged_rightly(kind: str) -> None:
    tasks = MADE[kind]()
    chosen = [task.name for task in tasks[:: max(1, len(tasks) // SAMPLE)]][:SAMPLE]
    audits = await audited(environment_of(class_name(kind), tasks), names=chosen)
    assert len(audits) == SAMPLE
    assert complaints(tasks, audits) == []


@pytest.mark.parametrize("kind", QUICK_MACHINES)
async def test_a_sample_of_machines_is_judged_rightly(kind: str, namespaces: None) -> None:
    tasks, names = IN_MACHINES[kind](), QUICK_MACHINES[kind]
    async with machines() as provider:
        audits = await audited(
            machines_of(class_name(kind), tasks),
            only=QUICK_PROBES,
            names=names,
            config=SandboxedConfig(sandbox="process"),
            sandboxes=provider,
        )
    assert len(audits) == len(names)
    assert complaints(tasks, audits) == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", MADE)
async def test_every_task_is_judged_rightly_and_alike_each_time(kind: str) -> None:
    runs: list[Mapping[str, object]] = []
    for _ in range(RUNS):
        tasks = MADE[kind]()
        audits = await audited(environment_of(class_name(kind), tasks))
        assert complaints(tasks, audits) == []
        runs.append(told(audits))
    assert runs == [runs[0]] * RUNS


@pytest.mark.soak
@pytest.mark.parametrize("kind", IN_MACHINES)
async def test_every_machine_is_judged_rightly_and_alike_each_time(kind: str, namespaces: None) -> None:
    runs: list[Mapping[str, object]] = []
    async with machines() as provider:
        for _ in range(RUNS):
            tasks = IN_MACHINES[kind]()
            environment = machines_of(class_name(kind), tasks)
            audits = await audited(environment, config=SandboxedConfig(sandbox="process"), sandboxes=provider)
            assert complaints(tasks, audits) == []
            runs.append(told(audits))
    assert runs == [runs[0]] * RUNS


@pytest.mark.soak
async def test_every_cheat_of_the_library_succeeds_somewhere(namespaces: None) -> None:
    broke: set[str] = set()
    for kind, make in MADE.items():
        for each in await audited(environment_of(class_name(kind), make())):
            broke |= {result.probe for result in each.results if result.state == "broke"}
    async with machines() as provider:
        for kind, tasks in IN_MACHINES.items():
            environment = machines_of(class_name(kind), tasks())
            config = SandboxedConfig(sandbox="process")
            missing = sorted({cheat.name for cheat in all_cheats()} - broke)
            for each in await audited(environment, only=("oracle", *missing), config=config, sandboxes=provider):
                broke |= {result.probe for result in each.results if result.state == "broke"}
    assert {cheat.name for cheat in all_cheats()} - broke == set()
