"""`hub check`: a broken environment fails the check that is for it, and no other."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import EnvironmentConfig, Score, Submission
from rollouthub.environment import AnyEnvironment, Environment
from rollouthub.hosting import InProcessHost
from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.check_finding import Broken, Finding
from rollouthub_registry.check.check_suite import run_checks
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.checks import CHECKS
from rollouthub_registry.check.deadline import Spent, in_time
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)
from tests.registry.worlds import (
    BROKEN,
    Counting,
    Hoarder,
    OpenEndedHost,
    OverwritingHost,
    Whole,
)


async def findings_of(environment: AnyEnvironment, limit: int = 4, **more: Any) -> dict[str, Finding]:
    subject = CheckedEnvironment("world", environment, EnvironmentConfig(), limit=limit, **more)
    return {finding.check: finding for finding in await run_checks(subject)}


def failed(findings: dict[str, Finding]) -> list[str]:
    return [name for name, finding in findings.items() if finding.state == "failed"]


async def test_a_whole_environment_passes_everything() -> None:
    findings = await findings_of(Whole)
    assert list(findings) == [check.name for check in CHECKS]
    assert {finding.state for finding in findings.values()} == {"passed"}


@pytest.mark.parametrize(("check", "environment"), BROKEN.items())
async def test_each_fault_is_found_by_its_check_alone(check: str, environment: AnyEnvironment) -> None:
    findings = await findings_of(environment, limit=20 if check == "tasks" else 4)
    assert failed(findings) == [check], findings
    assert findings[check].fix
    assert findings[check].says


@pytest.mark.parametrize(("check", "host"), [("seal", OpenEndedHost), ("submit", OverwritingHost)])
async def test_a_host_that_forgets_the_end_is_found(check: str, host: type[InProcessHost]) -> None:
    assert check in failed(await findings_of(Whole, make_host=host))


async def test_state_that_is_counted_over_episodes_is_found_and_named() -> None:
    findings = await findings_of(Counting)
    assert failed(findings) == ["isolation"]
    assert "Counting.looks" in " ".join(findings["isolation"].details)


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not say which files are open")
async def test_files_that_stay_open_are_counted() -> None:
    findings = await findings_of(Hoarder)
    for file in Hoarder.files:
        os.close(file)
    assert failed(findings) == ["closing"]
    assert "more files are open" in findings["closing"].says


class Voiceless(Whole):
    """No reference, no answer to hand in, no secret."""

    submits = False

    def reference(self) -> tuple[()]:
        return ()


async def test_what_does_not_apply_says_why() -> None:
    findings = await findings_of(Voiceless, limit=2)
    states = {name: finding.says for name, finding in findings.items() if finding.state == "not_applicable"}
    assert list(states) == ["oracle", "constants", "submit"]
    assert "`reference`" in states["oracle"]


class Ranked(Whole):
    """Scored by groups alone."""

    # As a class has it that writes none.
    verify = Environment.verify  # pyright: ignore[reportAssignmentType]

    def verify_group(self, submissions: Sequence[Submission]) -> list[Score]:
        return [Score(reward=1.0) for _ in submissions]


async def test_what_scores_groups_alone_is_not_checked_by_single_verdicts() -> None:
    findings = await findings_of(Ranked, limit=2)
    states = {name for name, finding in findings.items() if finding.state == "not_applicable"}
    assert states >= {"oracle", "null", "constants", "submissions"}
    assert not failed(findings)


def test_sample_arguments_fit_the_schema_or_do_not() -> None:
    tool = InProcessHost("world", Whole).info.tools[1]
    assert tool.name == "note"
    assert all(isinstance(arguments["text"], str) for arguments in well_formed(tool))
    assert [wrong for wrong, _ in ill_formed(tool)] == ["an unknown argument", "no 'text'", "text = 7"]
    opened = tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": True}})
    assert [wrong for wrong, _ in ill_formed(opened)] == ["no 'text'", "text = 7"]


SHIPPED = ["arithmetic", "board_game", "negotiation", Path(__file__).parents[2] / "examples" / "dice.py"]


@pytest.mark.parametrize("environment", SHIPPED, ids=str)
def test_what_is_shipped_passes_from_the_command_line(hub: Hub, environment: str | Path) -> None:  # noqa: F811
    done = hub("check", environment, "--json")
    assert done.code == 0, done.out
    assert done.json["passed"]
    assert done.json["seconds"] < 120


def test_math_passes_with_its_data(hub: Hub, real_data: Path) -> None:  # noqa: F811
    done = hub("check", "gsm8k", "--set", f"data={real_data / 'gsm8k'}", "--limit", "4")
    assert done.code == 0, done.out


LEAKY = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task


class Leaky(Environment[EnvironmentConfig]):
    """Tells everybody."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(3):
            yield Task(Public(id=str(index), prompt="?"), Secret(answer=f"the word {index}"))

    def messages(self, seat):
        from rollouthub.messages import user

        return [user(f"Do not say {self.task.secret.answer}!")]

    async def verify(self, submission):
        return Score(reward=float(submission.final == self.task.secret.answer))
'''


def test_a_failure_is_shown_with_what_to_do(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "leaky.py").write_text(LEAKY)
    done = hub("check", "leaky.py")
    assert done.code == 1
    assert "✗  secrecy" in done.out
    assert "the opening messages" in done.out
    assert "→ keep the secret half out" in done.out
    assert "–  oracle" in done.out
    only = hub("check", "leaky.py", "--only", "seeds", "--json")
    assert (only.code, [check["check"] for check in json.loads(only.out)["checks"]]) == (0, ["seeds"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("arithmetik",), "arithmetic"),
        (("arithmetic", "--split", "tset"), "test"),
        (("arithmetic", "--set", "sise=1"), "size"),
        (("arithmetic", "--only", "secresy"), "secrecy"),
        (("gsm8k", "--set", "data=nowhere"), "nowhere"),
    ],
)
def test_mistakes_are_named(hub: Hub, arguments: tuple[str, ...], complaint: str) -> None:  # noqa: F811
    assert complaint in hub("check", *arguments).refused()


class Lenient(Whole):
    """Doing nothing earns a quarter, by its own rules, on every task."""

    async def verify(self, submission: Submission) -> Score:
        """A quarter for an untouched world."""
        score = await super().verify(submission)
        return score if score.reward else Score(reward=0.25, passed=False)


class DeclaredLenient(Lenient):
    """The same, and says so."""

    def null_reward(self) -> float:
        """What doing nothing earns."""
        return 0.25


async def test_what_doing_nothing_earns_may_be_declared() -> None:
    assert "null" in failed(await findings_of(Lenient))
    findings = await findings_of(DeclaredLenient)
    assert findings["null"].state == "passed", findings["null"]
    assert findings["null"].says.endswith("above the floor that 4 of them declare")


def test_time_in_the_queue_for_a_processor_is_not_the_environments() -> None:
    assert "machine is busy" in Spent(wall=900, cpu=60, queued=800).fix
    assert "computes" in Spent(wall=121, cpu=119, queued=1).fix
    assert "wait without a bound" in Spent(wall=121, cpu=1, queued=0.5).fix


async def test_a_check_that_only_waits_is_ended_and_told_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollouthub_registry.check.deadline.CHECK_SECONDS", 0.2)
    with pytest.raises(Spent) as spent:
        await in_time(anyio.sleep_forever)
    assert "wait without a bound" in spent.value.fix


async def test_what_a_check_raises_comes_through_its_time_limit() -> None:
    async def broken() -> str:
        raise Broken("it leaks", "do not")

    with pytest.raises(Broken, match="it leaks"):
        await in_time(broken)
