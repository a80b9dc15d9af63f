"""Looks for what the verifier says of an answer in what tools say of it."""

import re

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped
from rollouthub_registry.audit.tool_texts import results_of

GUESS = "mauve-7319"
_LEAST = 12
"""Fewest characters of words that are searched for."""


async def act(cheater: Cheater) -> None:
    """Give the same odd text to the verifier, in an episode of its own, and to every tool."""
    judged = await cheater.task.insist(GUESS)
    feedback = "" if judged.score is None else judged.score.feedback or ""
    phrases = [phrase for phrase in re.split(r"[\n.;:]", feedback.replace(GUESS, "")) if len(phrase.strip()) >= _LEAST]
    if not phrases:
        raise ProbeSkipped("the verifier says nothing")
    public = cheater.task.prompt
    for tool, _, words in await results_of(cheater.plane, GUESS):
        for phrase in phrases:
            if phrase.strip() in words and phrase.strip() not in public:
                cheater.found(f"the verifier's words are in a result of the tool {tool!r}", words)
                return


CHEAT = Cheat(
    name="verifier-feedback",
    defect="L11",
    title="no tool says what the verifier would say",
    source="https://github.com/huggingface/OpenEnv/pull/972",
    act=act,
    looks=True,
)
