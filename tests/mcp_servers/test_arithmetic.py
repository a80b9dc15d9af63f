import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub import Deadlines, Submission, ToolError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import assistant
from rollouthub.protocols import TaskCard
from rollouthub.task import BadRow
from rollouthub_servers.arithmetic import Arithmetic, ArithmeticConfig
from rollouthub_servers.arithmetic.answer import find_integer
from rollouthub_servers.arithmetic.calculator import calculate


def host(**settings: Any) -> InProcessHost:
    return InProcessHost("arithmetic", Arithmetic, ArithmeticConfig(**settings))


def cards(count: int, split: str = "test", seed: int = 0, **settings: Any) -> list[TaskCard]:
    return [card for card in islice(host(**settings).cards(split, seed), count) if not isinstance(card, BadRow)]


def expression(card: TaskCard) -> str:
    assert isinstance(card.public.prompt, str)
    found = re.search(r"What is (.*)\?", card.public.prompt)
    assert found is not None
    return found[1]


def said(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@asynccontextmanager
async def episode(state: Any = None, **settings: Any) -> AsyncGenerator[tuple[HostedEpisode, TaskCard]]:
    home = host(**settings)
    card = next(home.cards("test", 0))
    assert not isinstance(card, BadRow)
    async with home.open(card, seed=0, deadlines=Deadlines(), state=state) as opened:
        assert isinstance(opened, HostedEpisode)
        yield opened, card


def test_the_same_seed_makes_the_same_tasks_and_another_seed_or_split_others() -> None:
    digests = [card.digest for card in cards(20)]
    assert digests == [card.digest for card in cards(20)]
    assert not set(digests) & {card.digest for card in cards(20, seed=1)}
    prompts = {card.public.prompt for card in cards(20)}
    assert not prompts & {card.public.prompt for card in cards(20, split="train")}


def test_a_larger_size_begins_with_the_same_tasks_and_makes_them_one_by_one() -> None:
    endless = cards(3, size=10**12)
    assert [card.public for card in endless] == [card.public for card in cards(3, size=3)]
    assert [card.public.id for card in endless] == ["test/0", "test/1", "test/2"]


def test_difficulty_is_as_configured() -> None:
    for card in cards(50, terms=3, digits=2, operators="+"):
        terms = expression(card).split(" + ")
        assert len(terms) == 3
        assert all(1 <= int(term) <= 99 for term in terms)


@pytest.mark.parametrize("settings", [{"terms": 1}, {"operators": "/"}, {"operators": ""}, {"digits": 0}, {"size": 0}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ArithmeticConfig(**settings)


async def test_the_calculator_says_what_the_verifier_expects_for_every_task() -> None:
    home = host(size=200)
    for card in home.cards("test", 3):
        assert not isinstance(card, BadRow)
        async with home.open(card, seed=0, deadlines=Deadlines()) as opened:
            value = said(await opened.seats["agent"].call_tool("calculate", {"expression": expression(card)}))
            score = await opened.verify(Submission(transcript=(assistant(f"It is {value}."),)))
            assert score.passed, expression(card)


async def test_a_submitted_answer_counts() -> None:
    async with episode() as (opened, card):
        await opened.seats["agent"].call_tool("submit", {"answer": calculate(expression(card))})
        assert opened.is_sealed
        assert (await opened.verify(Submission(answer=opened.answer))).reward == 1.0


async def test_the_reference_asks_the_calculator_then_answers() -> None:
    async with episode() as (opened, card):
        asked, answered = await opened.reference()
        (request,) = asked.tool_requests
        assert json.loads(request.arguments) == {"expression": expression(card)}
        assert (await opened.verify(Submission(transcript=(asked, answered)))).reward == 1.0


@pytest.mark.parametrize("final", ["", "I do not know.", "The answer is 1.", "It is 1.5", "٣"])
async def test_no_answer_or_a_wrong_one_is_worth_nothing(final: str) -> None:
    async with episode() as (opened, _):
        score = await opened.verify(Submission(transcript=(assistant(final),)))
        assert (score.reward, score.passed) == (0.0, False)


async def test_a_snapshot_restores() -> None:
    async with episode() as (opened, _):
        await opened.seats["agent"].call_tool("calculate", {"expression": "1+1"})
        state = await opened.snapshot()
    async with episode(state) as (again, _):
        assert await again.snapshot() == state == {"calculations": 1}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("The answer is 42.", "42"),
        ("12 + 30 = 42", "42"),
        ("12+30=42", "42"),
        ("it is **-1,234,567**", "-1234567"),
        ("$1{,}234$", "1234"),
        (r"\boxed{42} is what 6 * 7 makes", "42"),
        (r"so \(\boxed{-42}\).", "-42"),
        ("= − 42", "-42"),
        ("100 - 58", "58"),
        ("-$42", "-42"),
        ("$-42", "-42"),
        ("007", "7"),
        ("-0", "0"),
        ("42.00", "42"),
        ("42.50", "42.5"),
        ("1,2", "2"),
        ("no number", None),
        ("9" * 1500, "9" * 1500),
    ],
)
def test_the_last_number_is_found_in_any_dress(text: str, number: str | None) -> None:
    assert find_integer(text) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * -4", "-20"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("2 ** 10", "1024"),
        ("2 ** -2", "0.25"),
        ("10 / 4", "2.5"),
        ("10 / 5", "2"),
        ("0.1 + 0.2", "0.3"),
        ("-0.05 * 1", "-0.05"),
        ("1 / 3", "0.33333333333333333333 (rounded)"),
        ("2 / 3 * 3", "2"),
        ("1,234 × 2 ÷ 2", "1234"),
        ("1\n+\t1", "2"),
        ("(-1) ** 99999999999999999999", "-1"),
        ("0 ** 10 ** 50", "0"),
    ],
)
def test_the_calculator_is_exact(text: str, value: str) -> None:
    assert calculate(text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("1 +", "well-formed"),
        ("2(3)", "operator between"),
        ("1 / 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("1 % 0", "division by zero"),
        ("__import__('os')", "cannot read '_'"),
        ("2 ^ 3", "cannot read '^'"),
        ("2 ** 0.5", "whole number"),
        ("9 ** 9 ** 9", "more than 1,000 digits"),
        ("(9 ** 900) * (9 ** 900)", "more than 1,000 digits"),
        ("(1 / 9 ** 900) * (1 / 9 ** 900)", "more than 1,000 digits"),
        ("7" * 1500, "more than 1,000 digits"),
        ("1" + "+1" * 5000, "characters long"),
        ("(" * 1000 + "1" + ")" * 999, "well-formed"),
        ("-" * 1999 + "1", "too long or nested"),
    ],
)
def test_the_calculator_refuses_what_it_cannot_do_with_words_for_the_model(text: str, complaint: str) -> None:
    with pytest.raises(ToolError, match=re.escape(complaint)):
        calculate(text)
