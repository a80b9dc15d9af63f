"""Records to store, and runs made of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Outcome, Rollout, Score, Stop, ToolCall, ToolRequest, Turn
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, TaskRef, Timings, Usage
from rollouthub.store import open_writer
from rollouthub.values import Float32s, Int32s

RESOLVED: dict[str, Any] = {"request": {"environments": ["arithmetic"], "repeats": 2}}


def record(sample: str = "g1-0", attempt: int = 0, outcome: Outcome = Outcome.SCORED, **changes: Any) -> Rollout:
    """A record of one short episode; `sample` is its group and number."""
    group, _, number = sample.rpartition("-")
    fields: dict[str, Any] = {
        "run_id": "run",
        "rollout_id": sample,
        "group_id": group,
        "sample": int(number),
        "attempt": attempt,
        "environment": EnvironmentRef(name="arithmetic", version="1", digest="sha256:0"),
        "task": TaskRef(split="test", id=f"test/{group}", digest="sha256:0"),
        "agent": AgentRef(name="tool_loop", version="1"),
        "outcome": outcome,
        "stop": Stop.FINISHED if outcome is Outcome.SCORED else Stop.FAILED,
        "score": Score(reward=1.0, passed=True) if outcome is Outcome.SCORED else None,
        "turns": conversation(2),
        "timings": Timings(setup=0.25, agent=2.0, model=1.5, tool=0.5, total=3.0),
        "started_at": 100.0,
        "faults": () if outcome is Outcome.SCORED else (fault(outcome),),
    }
    return Rollout(**{**fields, **changes})


def fault(outcome: Outcome) -> Fault:
    """A fault that fits an outcome."""
    boundary: Any = {"cancelled": "hub"}.get(outcome.value, outcome.value.removesuffix("_failed"))
    return Fault(boundary=boundary, phase="agent", type=f"{boundary.title()}Error", message="it broke")


def conversation(length: int, answer_tokens: int = 4) -> tuple[Turn, ...]:
    """Turns that each extend the one before, every one with the token ids of its whole prompt."""
    turns: list[Turn] = []
    prompt = Int32s(range(10))
    output = Int32s(range(answer_tokens))
    call = ToolCall(
        id="call",
        name="calculate",
        arguments={"expression": "1 + 2"},
        result=CallToolResult(content=[TextContent(text="3")]),
        started=0.5,
        seconds=0.1,
        bytes=1,
    )
    for index in range(length):
        turns.append(
            Turn(
                index=index,
                parent_turn=index - 1 if index else None,
                messages=(Message(role="user", content="1 + 2?"),),
                response=Message(
                    role="assistant", tool_requests=(ToolRequest(id="c", name="calculate", arguments="{}"),)
                ),
                tool_calls=(call,) if index + 1 < length else (),
                usage=Usage(prompt_tokens=len(prompt), output_tokens=answer_tokens),
                cost=0.5,
                prompt_token_ids=prompt,
                output_token_ids=output,
                output_logprobs=Float32s([-0.5] * answer_tokens),
                token_source="engine",
            )
        )
        prompt = prompt + output + Int32s([7, 8])
    return tuple(turns)


def names_in(directory: Path) -> list[str]:
    """What lies in a directory."""
    return sorted(path.name for path in directory.iterdir())


async def write(directory: Path, records: Sequence[Rollout], *, resume: bool = False) -> None:
    """A run that holds these records and has ended."""
    async with open_writer(directory, resolved=RESOLVED, given="", resume=resume) as writer:
        for rollout in records:
            await writer.add(rollout)
