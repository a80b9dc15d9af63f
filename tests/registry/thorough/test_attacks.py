"""Attacks find what leaks, an environment for each class, and leave whole ones alone."""

import shutil

import pytest

from rollouthub.environment import AnyEnvironment
from rollouthub.hosting import InProcessHost
from rollouthub_registry.check.thorough import attack_context
from rollouthub_registry.check.thorough.attack_report import Report
from rollouthub_registry.check.thorough.attacks import ATTACKS, shell_tools
from rollouthub_registry.check.thorough.campaign import make_attack
from tests.mcp_servers.private_table import PrivateTable
from tests.registry.thorough import leaky
from tests.registry.thorough.attack_contexts import BY_NAME, CHEATS, MakeHost, attacked, made, said
from tests.registry.thorough.wrapped import Retail
from tests.registry.worlds import Whole

LEAKS: list[tuple[str, AnyEnvironment, MakeHost, str]] = [
    ("discovery", leaky.Spoken, InProcessHost, "the canary in the secret's 'answer' is in the answer to"),
    ("discovery", leaky.Described, InProcessHost, "the secret's 'answer' is in the answer to tools/list"),
    ("results", leaky.Sourced, InProcessHost, "a line of the verifier's source is in the answer to tool rules"),
    ("guessed-tools", Whole, leaky.BackdoorHost, "the tool 'evaluate' is not listed"),
    ("results", leaky.Scolding, InProcessHost, "is in the answer to tool guess"),
    ("results", leaky.Disguised, InProcessHost, "is in the answer to tool peek"),
    ("submit", Whole, leaky.TellingHost, "a right answer is told from a wrong one"),
    ("listings", leaky.Listed, InProcessHost, "its answer is in its public half"),
    ("verifier-files", leaky.Furnished, InProcessHost, "is in the answer to tool bash"),
    ("written-rewards", leaky.Writable, InProcessHost, "the cheat is paid 1 where worthless work is paid 0"),
    ("answers-in-errors", leaky.Scolding, InProcessHost, "the answer is in an error of the tool 'guess'"),
    ("answers-in-tool-lists", leaky.Described, InProcessHost, "the answer is in the list of tools"),
    ("other-words", leaky.Shared, InProcessHost, "is in a result of the tool 'note'"),
    ("marks", leaky.Shared, InProcessHost, "is met in another"),
    ("guessable-tokens", Whole, leaky.CountedHost, "bits over"),
    ("verifier-words", leaky.Chatty, InProcessHost, "are shown to the agent"),
    ("run-strings", leaky.Evaluating, InProcessHost, "an argument of calculate is run by the server"),
    ("other-seats-tools", PrivateTable, leaky.OpenToolsHost, "seat 'left' may call 'right_card'"),
    ("other-seats-words", PrivateTable, leaky.GossipingHost, "seat 'left' reads another's words in tool get_task"),
    ("other-seats-words", leaky.TokenTelling, leaky.NotingTokensHost, "seat 'right' reads another's token in tool"),
    ("heavy-arguments", leaky.Brittle, InProcessHost, "is a fault of the environment in fetch"),
]


@pytest.mark.parametrize(
    ("attack", "environment", "make_host", "words"),
    LEAKS,
    ids=[f"{attack}-{environment.__name__}-{host.__name__}" for attack, environment, host, _ in LEAKS],
)
async def test_each_leak_is_found_by_its_attack(
    attack: str, environment: AnyEnvironment, make_host: MakeHost, words: str
) -> None:
    verdict = await made(attack, environment, make_host)
    assert verdict.state == "broke", verdict
    assert words in said(verdict)


@pytest.mark.skipif(shutil.which("setsid") is None, reason="this system has no setsid")
async def test_a_process_that_outlives_its_episode_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_tools, "GONE_SECONDS", 0.3)
    verdict = await made("survivors", leaky.Haunted, is_planted=False)
    assert "still run" in said(verdict)


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_context, "TURN_SECONDS", 0.1)


WHOLE = sorted(
    {attack.name for attack in ATTACKS}
    - {"model-seam", "conformance", "inspector", "sdk-1", "guessed-tools", "heavy-arguments", "oversize"}
)
"""All but what loads litellm, starts other programs, or takes more than a second."""


def test_no_cheat_has_an_attacks_name() -> None:
    assert {cheat.name for cheat in CHEATS}.isdisjoint(attack.name for attack in ATTACKS)


async def test_no_cheat_succeeds_on_a_whole_environment() -> None:
    async with attacked(Whole) as context:
        verdicts = [await make_attack(context, attack) for attack in CHEATS]
    assert {verdict.attack: said(verdict) for verdict in verdicts if verdict.state == "broke"} == {}
    assert {verdict.attack for verdict in verdicts if verdict.state == "held"} >= {"other-words", "hedged-answers"}
    assert "no tool runs commands" in next(each.says for each in verdicts if each.attack == "daemon")


async def test_a_whole_environment_holds() -> None:
    async with attacked(Whole) as context:
        verdicts = [await make_attack(context, BY_NAME[name]) for name in WHOLE]
    assert {verdict.attack: said(verdict) for verdict in verdicts if verdict.state == "broke"} == {}
    not_tried = {verdict.attack for verdict in verdicts if verdict.state == "not_tried"}
    assert not_tried == {"verifier-files", "survivors"} | OF_SEATS


OF_SEATS = {"other-seats-tools", "other-seats-words"}


async def test_seats_that_wait_for_each_other_hold_and_hold_nothing_up() -> None:
    tried = {*OF_SEATS, "discovery", "results", "marks", "strict-arguments", "late-calls", "sdk-2"}
    async with attacked(PrivateTable) as context:
        verdicts = [await make_attack(context, BY_NAME[name]) for name in sorted(tried)]
    assert {(verdict.attack, verdict.state, said(verdict)) for verdict in verdicts} == {
        (name, "held", "") for name in tried
    }


async def test_an_attack_that_takes_too_long_is_cut_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_context, "TURN_SECONDS", 30.0)  # so that a call waits for its turn, beyond the limit
    async with attacked(PrivateTable) as context:
        cut = await make_attack(context, BY_NAME["results"], seconds=0.5)
        assert (cut.state, cut.is_cut) == ("not_tried", True)
        assert (await make_attack(context, BY_NAME["nothing-left"])).state == "held"


async def test_what_has_no_time_left_is_not_tried() -> None:
    async with attacked(Whole, is_planted=False) as context:
        verdict = await make_attack(context, BY_NAME["discovery"], seconds=0)
    assert (verdict.state, verdict.requests, verdict.is_cut) == ("not_tried", 0, True)
    report = Report("world", planned=1, verdicts=[verdict])
    assert not report.is_passed, "a gate that was not gone through is not passed"
    assert "--time-limit" in verdict.says


@pytest.mark.soak
async def test_names_that_every_agent_reads_are_no_secrets_of_a_wrapped_benchmark() -> None:
    async with attacked(Retail) as context:
        verdicts = [await make_attack(context, BY_NAME[name]) for name in WHOLE]
        watched = {item.text for item in context.target.watched}
    assert {verdict.attack: said(verdict) for verdict in verdicts if verdict.state == "broke"} == {}
    assert "refund to paypal_77" in watched, "what only the ground truth says is still watched for"
