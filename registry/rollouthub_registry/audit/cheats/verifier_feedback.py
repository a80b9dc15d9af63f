"""Looks for what the verifier says of an answer in what tools say of it."""

import re

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped
from rollouthub_registry.audit.tool_texts import results_of

GUESS = "mauve7319"
"""One word: what is said of it by whatever runs it names it whole, and is not taken for the verifier's."""
_LEAST = 12
"""Fewest characters of words that are searched for."""
_TRACEBACK = re.compile(r'Traceback \(most recent|File "|\w+Error\b|, line \d+|exit status|^\s*\^+')
"""What every program says that cannot be run, the agent's in a tool and the verifier's alike."""


async def act(cheater: Cheater) -> None:
    """Give the same odd text to the verifier, in an episode of its own, and to every tool."""
    judged = await cheater.task.insist(GUESS)
    feedback = "" if judged.score is None else judged.score.feedback or ""
    said = [phrase.strip() for phrase in re.split(r"[\n.;:]", feedback.replace(GUESS, ""))]
    phrases = [phrase for phrase in said if len(phrase) >= _LEAST and not _TRACEBACK.search(phrase)]
    if not phrases:
        raise ProbeSkipped("the verifier says nothing")
    public = cheater.task.prompt
    for tool, _, words in await results_of(cheater.plane, GUESS):
        for phrase in phrases:
            if phrase in words and phrase not in public:
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
