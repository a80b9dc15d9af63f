"""Records to learn from, made by hand: ids, log-probabilities and masks that a test can name one by one."""

from collections.abc import Sequence
from typing import Any

from rollouthub import Message, Outcome, Rollout, Score, Stop, Turn
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef, Usage
from rollouthub.values import Float32s, Int32s


def turn(
    index: int, prompt: Sequence[int], output: Sequence[int], *, parent: int | str | None = "previous", **changes: Any
) -> Turn:
    """A turn that the policy spoke: log-probabilities are -0.125 times the place, so that each can be told apart."""
    before: Any = (index - 1 if index else None) if parent == "previous" else parent
    fields: dict[str, Any] = {
        "index": index,
        "parent_turn": before,
        "messages": (Message(role="user" if before is None else "tool", content=f"asked {index}", tool_call_id="c"),)
        if before is not None
        else (Message(role="user", content=f"asked {index}"),),
        "response": Message(role="assistant", content=f"said {index}"),
        "finish_reason": "stop",
        "usage": Usage(prompt_tokens=len(prompt), output_tokens=len(output)),
        "prompt_token_ids": Int32s(prompt),
        "output_token_ids": Int32s(output),
        "output_logprobs": Float32s([-0.125 * (place + 1) for place in range(len(output))]),
        "policy_version": 3,
        "token_source": "engine",
    }
    return Turn(**{**fields, **changes})


def rollout(*turns: Turn, reward: float | None = 1.0, group: str = "g1", sample: int = 0, **changes: Any) -> Rollout:
    """A record of these turns, two that go on by default; `reward` None is one that broke."""
    spoken = turns or (turn(0, [1, 2, 3], [4, 5]), turn(1, [1, 2, 3, 4, 5, 6], [7]))
    outcome = Outcome.SCORED if reward is not None else Outcome.SANDBOX_FAILED
    versions = [each.policy_version for each in spoken if each.policy_version is not None]
    fields: dict[str, Any] = {
        "run_id": "run",
        "rollout_id": f"{group}-{sample}",
        "group_id": group,
        "sample": sample,
        "environment": EnvironmentRef(name="arithmetic", version="1", digest="sha256:0"),
        "task": TaskRef(split="train", id=f"train/{group}", digest="sha256:0"),
        "agent": AgentRef(name="tool_loop", version="1"),
        "model": "hosted_vllm/tiny",
        "outcome": outcome,
        "stop": Stop.FINISHED if reward is not None else Stop.FAILED,
        "score": None if reward is None else Score(reward=reward, passed=reward > 0.5),
        "turns": spoken,
        "policy_version_min": min(versions, default=None),
        "policy_version_max": max(versions, default=None),
        "trainable": reward is not None,
        "trainable_reason": None if reward is not None else "not scored: sandbox_failed",
    }
    return Rollout(**{**fields, **changes})


def forked(**changes: Any) -> Rollout:
    """A record whose third turn does not go on from what was sampled: two rows."""
    return rollout(turn(0, [1, 2, 3], [4, 5]), turn(1, [1, 2, 3, 4, 5, 6], [7, 8]), turn(2, [1, 2, 9], [7]), **changes)
