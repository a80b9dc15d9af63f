"""Records of every kind, for tests that count them."""

from typing import Any

from rollouthub import Rollout
from rollouthub.messages import assistant
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, Outcome, Stop, TaskRef, Timings, Turn, Usage
from rollouthub.score import Score

_BOUNDARY = {
    Outcome.AGENT_FAILED: "agent",
    Outcome.MODEL_FAILED: "model",
    Outcome.ENVIRONMENT_FAILED: "environment",
    Outcome.SANDBOX_FAILED: "sandbox",
    Outcome.VERIFIER_FAILED: "verifier",
}


def record(
    outcome: Outcome = Outcome.SCORED,
    *,
    reward: float = 1.0,
    passed: bool | None = None,
    environment: str = "sums",
    number: int = 0,
    queue: float = 0.0,
    seconds: float = 1.0,
    turns: int = 0,
    **more: Any,
) -> Rollout:
    """A record; scored with this reward where it is scored."""
    boundary: Any = _BOUNDARY.get(outcome)
    return Rollout(
        run_id="run",
        rollout_id=f"secret-rollout-{number}",
        group_id=f"secret-group-{number}",
        environment=EnvironmentRef(name=environment, version="1", digest="d"),
        task=TaskRef(split="test", id=f"secret-task-{number}", digest="d"),
        agent=AgentRef(name="agent", version="1"),
        outcome=outcome,
        stop=Stop.FINISHED,
        score=Score(reward=reward, passed=passed) if outcome is Outcome.SCORED else None,
        faults=() if boundary is None else (Fault(boundary=boundary, phase="agent", type="E", message="secret"),),
        turns=tuple(
            Turn(
                index=index,
                messages=(),
                response=assistant("secret"),
                usage=Usage(prompt_tokens=10, output_tokens=3, cached_tokens=4),
                cost=0.5,
                seconds=0.2,
                retries=1,
            )
            for index in range(turns)
        ),
        timings=Timings(queue=queue, setup=seconds / 10, agent=seconds / 2, verify=seconds / 5, total=seconds),
        **more,
    )
