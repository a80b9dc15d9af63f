"""A server of somebody else's, reached at its address alone, in which every hole there can be is found."""

import logging
from contextlib import AsyncExitStack

import pytest

from rollouthub_registry.check.thorough.attack import AttackResult
from rollouthub_registry.check.thorough.attack_context import Tools
from rollouthub_registry.check.thorough.attack_setup import attack_context_of
from rollouthub_registry.check.thorough.attacks import abandoned_episodes
from rollouthub_registry.check.thorough.campaign import make_attack
from rollouthub_registry.check.thorough.target import reach
from tests.registry.thorough.attack_contexts import BY_NAME, said
from tests.registry.thorough.homemade import TOKEN, home_made

HOLES = {
    "submit": "a right answer is told from a wrong one",
    "guessed-tools": "the tool 'evaluate' is not listed",
    "guessed-methods": "the method 'episodes/verify' answers",
    "control-routes": "GET /v1/environment answers no token",
    "verbs": "GET of the MCP endpoint",
    "agent-token": "the control plane answers GET",
    "second-answer": "another answer after the first is taken",
    "late-calls": "echo still answers after the end",
    "answers-at-once": "16 of 16 answers",
    "verdicts-at-once": "verifying again gives another verdict",
    "forged-tokens": "a longer token opens a seat",
    "token-places": "a place it does not belong to",
    "expired-tokens": "the token of a closed episode still opens something",
    "guessable-tokens": "bits over",
    "adopted-ids": "an id of its caller's",
    "foreign-sessions": "answers the token of another",
    "interleaved-tasks": "another task than before",
    "verifier-words": "are shown to the agent",
    "error-texts": "is the server's own",
    "strict-arguments": "takes an unknown argument",
    "malformed": "breaks the server: HTTP 500",
    "oversize": "a body of 5 MiB is answered with 200",
    "foreign-origin": "is served",
    "forgotten-episodes": "still open",
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks on purpose, and never closes what nobody ends."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    monkeypatch.setattr(abandoned_episodes, "TTL_SECONDS", 0.1)
    monkeypatch.setattr(abandoned_episodes, "SLACK_SECONDS", 0.1)


async def attacked(name: str) -> AttackResult:
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(home_made())
        target = await stack.enter_async_context(reach(address, TOKEN, None, 0, 2))
        context = await attack_context_of(stack, target, [], "its source is not here", Tools())
        context.access_points = ("server",)
        return await make_attack(context, BY_NAME[name])


@pytest.mark.parametrize(("attack", "words"), HOLES.items())
async def test_each_hole_is_found(attack: str, words: str) -> None:
    verdict = await attacked(attack)
    assert verdict.state == "broke", verdict
    assert words in said(verdict)


async def test_what_needs_the_source_says_so() -> None:
    verdict = await attacked("listings")
    assert (verdict.state, verdict.left_out) == ("held", ("its source is not here",))
