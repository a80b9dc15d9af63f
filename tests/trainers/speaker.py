"""A policy that speaks in token ids as no tokenizer would write them: it asks the calculator, and answers every second
question wrong. Whatever a trainer is handed must be these very ids."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.models.tokens.chatml import ChatMl, odd_ids


@dataclass(frozen=True)
class Said:
    """One call of the policy."""

    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]


@dataclass
class Speaker:
    """Answers prompts of ids."""

    tokenizer: ChatMl = field(default_factory=ChatMl)
    said: list[Said] = field(default_factory=list[Said])
    answers: int = 0

    def speak(self, prompt_ids: Sequence[int]) -> Said:
        """A call of the calculator after a question, its result after that, or one more every second time."""
        text = self.tokenizer.decode(list(prompt_ids))
        turns = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", text, re.DOTALL)
        role, last = turns[-1]
        if role == "tool":
            self.answers += 1
            words = f"It is {int(last) + self.answers % 2}."
        else:
            found = re.search(r"What is (.+)\?", last)
            assert found is not None, last
            call = {"name": "calculate", "arguments": {"expression": found[1]}}
            words = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        ids = [*odd_ids(words, len(self.said)), self.tokenizer.end]
        # Multiples of 1/64 are exact in 32 bits and in JSON.
        said = Said(list(prompt_ids), ids, [-(1 + token % 64) / 64 for token in ids])
        self.said.append(said)
        return said

    def rows(self) -> dict[tuple[int, ...], tuple[list[int], list[float]]]:
        """Each conversation at its end: its ids → the mask and log-probabilities that belong to them."""
        found: dict[tuple[int, ...], tuple[list[int], list[float]]] = {}
        for said in self.said:
            whole = (*said.prompt_ids, *said.token_ids)
            before = next((known for known in found if tuple(said.prompt_ids[: len(known)]) == known and known), None)
            mask, logprobs = found.pop(before) if before is not None else ([], [])
            gap = len(said.prompt_ids) - len(mask)
            found[whole] = (
                [*mask, *[0] * gap, *[1] * len(said.token_ids)],
                [*logprobs, *[0.0] * gap, *said.logprobs],
            )
        return found
