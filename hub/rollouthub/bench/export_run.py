"""Generates a run of any size for export benchmarks, always with the same text, token ids and rewards."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from mcp_types import CallToolResult, TextContent, Tool

from rollouthub.messages import Message, ToolRequest
from rollouthub.rollout import (
    AgentRef,
    EnvironmentRef,
    Outcome,
    Rollout,
    Stop,
    TaskRef,
    Timings,
    ToolCall,
    Turn,
    Usage,
)
from rollouthub.score import Score
from rollouthub.store.database import Batch, open_database
from rollouthub.values import Float32s, Int32s

TURNS, GROUP = 4, 4
"""Turns per rollout, and samples per task."""
_PROMPT, _ANSWER, _RESULT = 400, 120, 160
"""Tokens of the first prompt, of an answer, and of a tool's result."""
_TOOLS = "sha256:tools"
_WORDS = ("seven boats", "an old bridge", "the tide table", "three lanterns", "a ledger", "harbour dues")


def synthetic_run(rollouts: int, folder: Path | None = None) -> Path:
    """Generate a finished run of so many rollouts with four turns each; kept in a temporary folder for later calls.

    The run is built in another folder and then moved, so that an incomplete one is never used.
    """
    folder = Path(tempfile.gettempdir()) / f"rollouthub-bench-{version('rollouthub')}" if folder is None else folder
    place = folder / f"export-{rollouts}"
    if place.exists():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder, prefix=".making-"))
    try:
        database = open_database(partial / "run", resolved={"request": {"repeats": GROUP}}, given="", resume=False)
        try:
            for batch in _batches(rollouts):
                database.commit(batch)
        finally:
            database.close("finished")
        (partial / "run").rename(place)
    finally:
        shutil.rmtree(partial)
    return place


def _batches(rollouts: int) -> Iterator[Batch]:
    tool = Tool(name="look_up", description="Looks a word up.", input_schema={"type": "object", "properties": {}})
    chance = random.Random(1)
    for start in range(0, rollouts, 256):
        made = [_rollout(number, chance) for number in range(start, min(start + 256, rollouts))]
        yield Batch([(record, {}) for record in made], {_TOOLS: (tool,)} if not start else {})


def _rollout(number: int, chance: random.Random) -> Rollout:
    group, sample = divmod(number, GROUP)
    reward = chance.choice((0.0, 0.25, 1.0))
    return Rollout(
        run_id="bench",
        rollout_id=f"{group:08x}-{sample}",
        group_id=f"{group:08x}",
        sample=sample,
        environment=EnvironmentRef(name="bench", version="1", digest="sha256:0"),
        task=TaskRef(split="train", id=f"train/{group}", digest="sha256:0"),
        agent=AgentRef(name="tool_loop", version="1"),
        model="hosted_vllm/bench",
        tools_digest=_TOOLS,
        outcome=Outcome.SCORED,
        stop=Stop.FINISHED,
        score=Score(reward=reward, passed=reward == 1.0),
        turns=_turns(group, chance),
        timings=Timings(total=1.0),
        policy_version_min=1,
        policy_version_max=1,
        trainable=True,
    )


def _turns(group: int, chance: random.Random) -> tuple[Turn, ...]:
    asked = random.Random(group)  # a task's samples are asked the same
    prompt = Int32s([asked.randrange(50_000) for _ in range(_PROMPT)])
    turns: list[Turn] = []
    heard = Message(role="user", content=_text(asked, 200))
    for index in range(TURNS):
        output = Int32s([chance.randrange(50_000) for _ in range(_ANSWER)])
        call = f"call-{index}"
        is_last = index == TURNS - 1
        said = _text(chance, 60)
        result = _text(chance, 80)
        turns.append(
            Turn(
                index=index,
                parent_turn=index - 1 if index else None,
                messages=(heard,),
                response=Message(
                    role="assistant",
                    content=said,
                    tool_requests=()
                    if is_last
                    else (ToolRequest(id=call, name="look_up", arguments=f'{{"word": "{chance.choice(_WORDS)}"}}'),),
                ),
                tool_calls=()
                if is_last
                else (
                    ToolCall(
                        id=call,
                        name="look_up",
                        arguments={"word": chance.choice(_WORDS)},
                        result=CallToolResult(content=[TextContent(text=result)]),
                        started=0.0,
                        seconds=0.0,
                        bytes=len(result),
                    ),
                ),
                finish_reason="stop",
                usage=Usage(prompt_tokens=len(prompt), output_tokens=_ANSWER),
                prompt_token_ids=prompt,
                output_token_ids=output,
                output_logprobs=Float32s([-chance.random() for _ in range(_ANSWER)]),
                policy_version=1,
                token_source="engine",
            )
        )
        heard = Message(role="tool", content=result, tool_call_id=call)
        prompt = prompt + output + Int32s([chance.randrange(50_000) for _ in range(_RESULT)])
    return tuple(turns)


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words // 2))
