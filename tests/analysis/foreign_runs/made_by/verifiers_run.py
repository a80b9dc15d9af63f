"""Writes `traces.jsonl` with verifiers' own models and writer; run where verifiers is: `… FOLDER`, totals on stdout."""

import json
import sys
from pathlib import Path

from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.episode import EnvInfo, Episode
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, Error, ModelCall, Reward, TimeSpan, Timing, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, Tool, ToolCall, ToolMessage, Usage, UserMessage
from verifiers.v1.utils.trace_store import write_episode


def nodes(with_ids: bool) -> list[MessageNode]:
    """Two turns with a tool's answer between them; `with_ids` gives each message its tokens."""
    calls = [ToolCall(id="c1", name="add", arguments='{"x": 1, "y": 2}')]
    made = [
        MessageNode(message=SystemMessage(content="Be brief.")),
        MessageNode(parent=0, message=UserMessage(content="What is 1 + 2?")),
        MessageNode(parent=1, message=AssistantMessage(content="", tool_calls=calls), sampled=True),
        MessageNode(parent=2, message=ToolMessage(tool_call_id="c1", content="3")),
        MessageNode(parent=3, message=AssistantMessage(content="3", reasoning_content="easy"), sampled=True),
    ]
    if with_ids:
        for place, node in enumerate(made):
            node.token_ids = [10 * place, 10 * place + 1, 10 * place + 2]
            node.mask = [False, node.sampled, node.sampled]
            node.logprobs = [-0.5, -0.25] if node.sampled else []
    return made


def episode(index: int, rewards: dict[str, Reward], error: Error | None = None, *, with_ids: bool = False) -> Episode:
    """One episode of one agent."""
    data = WireTaskData(idx=index, prompt="What is 1 + 2?")
    task = TraceTask(type="Sum", data=data, hash=f"hash-{index}")
    trace = Trace(
        task=task,
        agent=AgentInfo(config=AgentConfig(model="small")),
        tools=[Tool(name="add", description="Add.", parameters={"type": "object"})],
        nodes=nodes(with_ids),
        calls=[
            ModelCall(
                node=2, model="small", finish_reason="tool_calls", usage=Usage(prompt_tokens=9, completion_tokens=4)
            ),
            ModelCall(node=4, model="small", finish_reason="stop", usage=Usage(prompt_tokens=15, completion_tokens=2)),
        ],
        rewards=rewards,
        metrics={"turns": 2.0},
        is_completed=True,
        ok=error is None,
        errors=[] if error is None else [error],
        timing=Timing(start=1000.0, agent={"start": 1000.0, "end": 1004.0}, scoring=TimeSpan(start=1004.0, end=1005.0)),
    )
    return Episode(env=EnvInfo(id="sums"), task=task, ok=error is None, errors=[], traces=[trace])


def main(folder: Path) -> None:
    """Write the run."""
    folder.mkdir(parents=True, exist_ok=True)
    episodes = [
        episode(0, {"right": Reward(score=1.0), "short": Reward(score=0.5, weight=0.2)}, with_ids=True),
        episode(0, {"right": Reward(score=0.0), "short": Reward(score=1.0, weight=0.2)}),
        episode(1, {"right": Reward(score=-2.0)}),
        episode(1, {}, Error(type="ProviderError", message="503", status_code=503)),
        episode(1, {}, Error(type="SandboxError", message="gone")),
        episode(1, {}, Error(type="HarnessError", message="exit 1")),
    ]
    for each in episodes:
        write_episode(folder, each)
    scored = [each.traces[0].reward for each in episodes if each.ok]
    sys.stdout.write(json.dumps({"count": len(episodes), "scored": len(scored), "mean": sum(scored) / len(scored)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
