"""Environments of every kind, by name; for tests."""

# pyright: basic

import os
import random
import signal
import time
from typing import Any

import verifiers as vf
from garbling import garble
from verifiers import types

CANARY = "canary-41fd"
SEEN: "list[int]" = []
"""State of the module's own, which libraries often have."""


def rows(count: int = 3) -> "list[Any]":
    """Sums, with their answers and more that is secret."""
    return [
        {
            "prompt": [{"role": "user", "content": f"What is {number} + {number}?"}],
            "answer": str(2 * number),
            "info": {"secret": CANARY},
        }
        for number in range(count)
    ]


async def exact(completion: Any, answer: Any) -> float:
    """Whether the last word is the answer."""
    return float(completion[-1].content == answer)


def turns(state: Any) -> float:
    """How many there were."""
    return 0.01 * len(state["trajectory"])


class Talk(vf.MultiTurnEnv):
    """Asks again, three times at most."""

    async def env_response(self, messages: Any, state: Any) -> Any:
        """Ask again, or misbehave as told."""
        said = messages[-1].content
        if said == "garble":
            garble()
        if said == "hang":
            time.sleep(600)  # noqa: ASYNC251  # as a loop without end does
        if said == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if said == "fail":
            raise KeyError("something")
        if said == "ask":
            await state["client"].get_response(messages, "judge", {}, state=state)
        return [types.Message(role="user", content="Are you sure?", secret=CANARY)]

    async def rollout(self, input: Any, client: Any, model: str, sampling_args: Any) -> Any:
        """Keeps the client where environments find it."""
        self.client = client
        return await super().rollout(input, client, model, sampling_args)

    async def setup_state(self, state: Any) -> None:
        """The same."""
        state["client"] = self.client


class Failing(Talk):
    """Fails whatever is said, or lacks a service where something is said."""

    def __init__(self, *args: Any, offline: bool, **given: Any) -> None:
        super().__init__(*args, **given)
        self.offline = offline

    async def env_response(self, messages: Any, state: Any) -> Any:
        """Fail."""
        if not self.offline:
            raise KeyError("whatever")
        if messages[-1].content:
            raise ConnectionRefusedError("no service")
        return await super().env_response(messages, state)


def count(state: Any, x: int = 0) -> int:
    """Count calls, in this rollout and in the process."""
    state["count"] = state.get("count", 0) + x
    SEEN.append(x)
    return 100 * len(SEEN) + state["count"]


def verify(state: Any, x: int = 0) -> str:
    """A tool that is called like what scores."""
    return "noted"


def called(completion: Any) -> float:
    """Messages with calls, and the calls of the first."""
    making = [m for m in completion if getattr(m, "tool_calls", None)]
    return len(making) + 0.1 * len(making[0].tool_calls) if making else 0.0


def broken(completion: Any) -> float:
    """Fails on everything but 'fine'."""
    return {"fine": 1.0}[completion[-1].content]


def judged(completion: Any) -> float:
    """Asks somebody who is not there."""
    raise ConnectionError("nobody")


def drawn(state: Any) -> float:
    """A random number."""
    return random.random()


def load_environment(kind: str = "talk") -> Any:
    """One of them."""
    if kind == "keys":
        raise vf.MissingKeyError(["OPENAI_API_KEY"])
    if kind == "crash":
        raise OSError("no such thing")
    if kind == "tools":
        return vf.MultiTurnEnv(rows(), vf.Rubric(called, turns), max_turns=2, tools=(count, verify))
    if kind == "odd":
        return vf.MultiTurnEnv([*rows(1), {"prompt": [], "picture": object()}], vf.Rubric(drawn), max_turns=1)
    if kind in ("broken", "judged"):
        return vf.MultiTurnEnv(rows(), vf.Rubric(broken if kind == "broken" else judged), max_turns=1)
    if kind == "judge":
        return vf.MultiTurnEnv(rows(), vf.JudgeRubric(exact), max_turns=1)
    if kind in ("fails", "offline"):
        return Failing(rows(), vf.Rubric(exact), max_turns=3, offline=kind == "offline")
    return Talk(rows(), vf.Rubric(exact, turns), max_turns=3)
