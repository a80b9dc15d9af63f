"""`arithmetic`: generated sums with a calculator; nothing to download, the hub's default environment."""

import random
from collections.abc import Iterator, Sequence

from pydantic import Field, JsonValue

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolRequest,
    tool,
)
from rollouthub.messages import assistant
from rollouthub_servers.arithmetic.answer import find_integer
from rollouthub_servers.arithmetic.calculator import calculate


class ArithmeticConfig(EnvironmentConfig):
    """Number and difficulty of the sums."""

    size: int = Field(default=1000, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    terms: int = Field(default=5, ge=2, le=50)
    """Number of terms in a sum."""
    digits: int = Field(default=4, ge=1, le=12)
    """Most digits of a term."""
    operators: str = Field(default="+-*", pattern=r"^[+\-*]+$")
    """The operators (+, - and *) from which each is drawn; a repeated one is drawn more often."""


class Arithmetic(Environment[ArithmeticConfig]):
    """Sums too long for the head, with a calculator."""

    scores_transcripts = True

    def __init__(self, task: Task[Public, Secret], config: ArithmeticConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.calculations = 0

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: ArithmeticConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Generate the tasks lazily, each split from its own random stream."""
        # A string seed is hashed, so that neighbouring seeds share nothing.
        stream = random.Random(f"{seed}/{split}").random
        operators, terms, limit = config.operators, config.terms, 10**config.digits - 1
        metadata: dict[str, JsonValue] = {"terms": terms, "digits": config.digits}
        for index in range(config.size):
            parts = [str(1 + int(stream() * limit))]
            for _ in range(terms - 1):
                parts.append(operators[int(stream() * len(operators))])
                parts.append(str(1 + int(stream() * limit)))
            expression = " ".join(parts)
            yield Task(
                Public(id=f"{split}/{index}", prompt=_PROMPT.format(expression), metadata=metadata),
                Secret(answer=str(_value(parts))),
            )

    @tool
    async def calculate(self, expression: str) -> str:
        """Evaluate an arithmetic expression exactly.

        Args:
            expression: Numbers with + - * / // % ** and parentheses, such as "12 * (3 + 4)".
        """
        self.calculations += 1
        return calculate(expression)

    def reference(self) -> Sequence[Message]:
        """Call the calculator, then state its result."""
        prompt = self.task.public.prompt
        assert isinstance(prompt, str)
        arguments = '{"expression": "' + _expression(prompt) + '"}'
        request = ToolRequest(id="reference-1", name="calculate", arguments=arguments)
        return (assistant("", request), assistant(f"The answer is {self.task.secret.answer}."))

    def snapshot(self) -> JsonValue:
        """The number of calls of the calculator, which is the only state."""
        return {"calculations": self.calculations}

    async def restore(self, state: JsonValue) -> None:
        """Restore a snapshot."""
        calculations = state.get("calculations") if isinstance(state, dict) else None
        if not isinstance(calculations, int):
            raise ValueError(f"{state!r} is no snapshot of arithmetic")
        self.calculations = calculations

    async def verify(self, submission: Submission) -> Score:
        """Compare the last number of the final message exactly with the answer."""
        answer, expected = find_integer(submission.final), self.task.secret.answer
        if answer == expected:
            return Score(reward=1.0, passed=True)
        feedback = "no number was given" if answer is None else f"expected {expected}, got {answer[:100]}"
        return Score(reward=0.0, passed=False, feedback=feedback)


_PROMPT = "What is {}?\n\nGive the exact value as a whole number, as the last thing you say."


def _expression(prompt: str) -> str:
    return prompt[len("What is ") : prompt.index("?")]


def _value(parts: Sequence[str]) -> int:
    """Evaluate alternating numbers and operators; `*` takes precedence."""
    total, sign, product = 0, 1, int(parts[0])
    for operator, term in zip(parts[1::2], parts[2::2], strict=True):
        if operator == "*":
            product *= int(term)
        else:
            total += sign * product
            sign, product = 1 if operator == "+" else -1, int(term)
    return total + sign * product
