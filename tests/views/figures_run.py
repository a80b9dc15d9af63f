"""A run that the engine plays for the comparison of faces: two environments, an agent that fails now and then, groups,
retries, faults, costs and tool errors.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import JsonValue

import rollouthub
from rollouthub import (
    Environment,
    EnvironmentConfig,
    Public,
    Score,
    Seat,
    Secret,
    Stop,
    Submission,
    Task,
    ToolError,
    tool,
)
from rollouthub.messages import assistant
from rollouthub.plugins.entry_points import AGENTS
from rollouthub.score import Component
from rollouthub.views.notebook import Run
from tests.plugins.stranger import register

CLERK = "acme/clerk"


class Clerk:
    """Calls tools as the model asks, and gives up where the model lost the page that a tool gave."""

    name = CLERK
    version = "1"
    needs_model = True
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        conversation = list(seat.messages)
        given = ""
        while True:
            response = await seat.generate(conversation)
            conversation.append(response)
            if not response.tool_requests:
                break
            results = await seat.call_tools(response.tool_requests)
            conversation += results
            given = results[-1].text
        if "spilt" in conversation[0].text and given not in response.text:
            raise RuntimeError("the ink is spilt")
        return Stop.FINISHED


class Ledger(Environment[EnvironmentConfig]):
    """Sums of a ledger: partial credit, a tool that refuses, agents that fail, and a verifier that breaks."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """A task for each way to end."""
        for number, name in enumerate(("plain", "torn", "spilt", "sealed", "burnt")):
            sum_of = f"{1200 + number} * {7 + number}"
            answer = str((1200 + number) * (7 + number))
            prompt = f"What is {sum_of}? The page is {name}."
            secret = Secret(answer=answer, reference=(assistant(answer),))
            yield Task(Public(id=f"{name}/{number}", prompt=prompt), secret)

    @property
    def _kind(self) -> str:
        return self.task.public.id.partition("/")[0]

    @tool
    async def calculate(self, expression: str) -> str:
        """Evaluate a product."""
        if self._kind == "torn":
            raise ToolError("the page is torn")
        first, _, second = expression.partition("*")
        return str(int(first) * int(second))

    async def verify(self, submission: Submission) -> Score:
        """Right, or worth a quarter for its form."""
        passed = self.task.secret.answer in (submission.final or "")
        if self._kind == "burnt":
            raise RuntimeError("no ledger is left to compare with")
        parts = {"sum": Component(value=float(passed), weight=0.75), "form": Component(value=1.0, weight=0.25)}
        reward = 0.75 * passed + 0.25
        return Score(reward=reward, passed=passed, components=parts, feedback=None if passed else "the sum is wrong")


def play(directory: Path, accuracy: float, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run of a model that is right as often as told, played in the directory."""
    register(directory.parent / f"site-{directory.name}", monkeypatch, AGENTS, CLERK, f"{__name__}:Clerk")
    return rollouthub.evaluate(
        ["arithmetic", Ledger],
        f"mock/solver?accuracy={accuracy}",
        agent=CLERK,
        directory=directory,
        limit=5,
        repeats=4,
        seed=3,
        price_prompt=2.0,
        price_output=8.0,
        progress=False,
    )
