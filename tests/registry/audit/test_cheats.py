"""The library of cheats: what each must say of itself, when one counts as paid, and what none may touch."""

import platform
import subprocess
from pathlib import Path

import pytest

from rollouthub import BadRow, Deadlines, Score
from rollouthub.hosting import InProcessHost
from rollouthub_registry.audit.audit_run import audit_task
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, as_probe
from rollouthub_registry.audit.preloaded_library import MACHINES, library_that_exits
from rollouthub_registry.audit.probes import PROBES
from rollouthub_registry.audit.task_finding import ProbeResult
from rollouthub_registry.audit.task_under_audit import TaskUnderAudit
from rollouthub_registry.check.reward_files import REWARD_FILES, writing_rewards
from tests.audit.made_tasks import TEXT, Judge, MadeTask, MadeTool, State, environment_of


async def tried(cheat: Cheat, task: MadeTask, *before: str) -> ProbeResult:
    """One cheat on one task, after the probes of these names."""
    host = InProcessHost("made", environment_of("OneTask", [task]))
    card = next(host.cards("test", 0))
    assert not isinstance(card, BadRow)
    probes = [probe for probe in PROBES if probe.name in before]
    audited = await audit_task(TaskUnderAudit(host, card, 0, Deadlines()), [*probes, as_probe(cheat)])
    return audited.results[-1]


def asks(words: str) -> Cheat:
    """A cheat that answers with these words."""

    async def act(cheater: Cheater) -> None:
        cheater.answer(words)

    return Cheat("asks", "wrong-accepted", "asking is not paid", "this test", act)


def quiz(judge: Judge) -> MadeTask:
    """A question that is judged so."""
    return MadeTask("quiz", "Which word is it?", "gannet-55120", judge)


def test_each_cheat_names_itself_its_class_and_a_source() -> None:
    cheats = all_cheats()
    assert len({cheat.name for cheat in cheats}) == len(cheats) >= 30
    for cheat in cheats:
        assert cheat.name == cheat.name.lower().replace("_", "-")
        assert cheat.title[0].islower() and not cheat.title.endswith(".")
        assert cheat.source == "the project's own" or any(
            part in cheat.source for part in ("arXiv:", "https://", "2026)")
        )
    assert {cheat.name for cheat in cheats}.isdisjoint(probe.name for probe in PROBES)


async def test_a_cheat_that_is_paid_is_found_with_what_it_answered() -> None:
    found = await tried(asks("please"), quiz(lambda said, _: said in ("please", "gannet-55120")))
    (finding,) = found.findings
    assert (found.state, finding.defect, finding.source) == ("broke", "wrong-accepted", "this test")
    assert finding.evidence is not None
    assert "please" in finding.evidence


async def test_what_worthless_work_is_paid_as_well_is_not_the_cheats() -> None:
    found = await tried(asks("please"), quiz(lambda said, _: 0.2 * bool(said.strip()) + 0.8 * (said == "gannet-55120")))
    assert (found.state, found.says) == ("held", "paid 0.2, as worthless work is")


async def test_a_reward_that_is_marked_as_suspect_is_no_success() -> None:
    judge: Judge = lambda said, _: Score(reward=float(said == "please"), suspect="it begged")  # noqa: E731
    assert (await tried(asks("please"), quiz(judge))).state == "held"


async def test_what_is_paid_once_by_chance_is_not_found() -> None:
    paid = iter((1.0, 0.0))
    found = await tried(asks("please"), quiz(lambda said, _: next(paid, 0.0) if said == "please" else 0.0))
    assert (found.state, found.says) == ("held", "paid 1 once, and not again")


async def test_no_cheat_is_judged_by_what_a_flaky_verifier_pays() -> None:
    turns = iter(range(1000))
    judge: Judge = lambda said, _: said == "please" or (bool(said) and next(turns) % 2 == 0)  # noqa: E731
    assert (await tried(asks("please"), quiz(judge), "oracle")).state == "held"


async def test_a_cheat_that_raises_is_told_and_the_task_is_not_blamed() -> None:
    async def act(cheater: Cheater) -> None:
        raise KeyError("mine")

    found = await tried(Cheat("breaks", "L8", "nothing", "this test", act), quiz(lambda said, _: 0.0))
    assert (found.state, found.findings) == ("not_tried", ())
    assert "KeyError" in found.says


async def test_what_every_program_says_that_cannot_run_is_no_verifiers_word() -> None:
    """A tool that runs programs and a verifier that does, too, complain alike."""
    complains = 'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\nNameError: name {0!r}'
    cheat = next(cheat for cheat in all_cheats() if cheat.name == "verifier-feedback")

    def task(tells: str) -> MadeTask:
        def run(state: State, code: str) -> str:
            return complains.format(code) + tells

        judge: Judge = lambda said, _: Score(reward=0.0, feedback=complains.format(said) + "; two tests are unmet")  # noqa: E731
        return MadeTask(
            "program", "Write a program.", "print(1)", judge, tools={"run": MadeTool(run, arguments={"code": TEXT})}
        )

    assert (await tried(cheat, task(""))).state == "held"
    assert (await tried(cheat, task("; two tests are unmet"))).state == "broke"


def _run(state: State, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


async def test_a_shell_among_this_machines_own_files_is_never_cheated_with(tmp_path: Path) -> None:
    ran: list[str] = []

    def noted(state: State, command: str) -> str:
        ran.append(command)
        return _run(state, command)

    tools = {"bash": MadeTool(noted, "Run a command.", {"command": TEXT})}
    task = MadeTask("open", "Write `a.txt`.", "done", lambda said, _: 0.0, tools=tools)
    for cheat in all_cheats():
        if cheat.needs == "shell":
            found = await tried(cheat, task)
            assert (found.state, found.says) == ("not_tried", "the tool runs commands among this machine's own files")
    assert all("echo" in command and "reward" not in command for command in ran), "only whether it is apart was asked"


def test_the_commands_that_write_rewards_write_each_one() -> None:
    lines = writing_rewards().split("; ")
    for path in REWARD_FILES:
        assert sum(line.endswith(f"> {path}") for line in lines) == 1


@pytest.mark.skipif(platform.system() != "Linux", reason="ELF is of Linux")
def test_the_preloaded_library_ends_a_program_before_it_begins(tmp_path: Path) -> None:
    assert {len(library_that_exits(machine)) < 500 for machine in MACHINES} == {True}
    if platform.machine() not in MACHINES:
        pytest.skip("no library for this processor")
    library = tmp_path / "exits.so"
    library.write_bytes(library_that_exits(platform.machine()))
    done = subprocess.run(
        ["/bin/sh", "-c", "echo ran; exit 3"], env={"LD_PRELOAD": str(library)}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")
