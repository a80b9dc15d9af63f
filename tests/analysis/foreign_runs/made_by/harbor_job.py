"""Writes a job's folder with harbor's own models; run where harbor is: `… FOLDER`, totals on stdout."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from harbor.models.agent.context import AgentContext
from harbor.models.job.result import JobResult, JobStats
from harbor.models.task.id import LocalTaskId
from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, ExceptionInfo, ModelInfo, TimingInfo, TrialResult
from harbor.models.verifier.result import VerifierResult

BEGAN = datetime(2026, 11, 1, 12, tzinfo=UTC)


def trajectory(name: str) -> Trajectory:
    """Two turns, the first with a command."""
    return Trajectory(
        schema_version="ATIF-v1.8",
        session_id=name,
        agent=Agent(name="mini", version="1.2", model_name="small"),
        steps=[
            Step(step_id=1, source="user", message="List the files.", timestamp=BEGAN.isoformat()),
            Step(
                step_id=2,
                source="agent",
                message="I look.",
                reasoning_content="ls does it",
                timestamp=(BEGAN + timedelta(seconds=3)).isoformat(),
                tool_calls=[ToolCall(tool_call_id="c1", function_name="bash", arguments={"command": "ls"})],
                observation=Observation(results=[ObservationResult(source_call_id="c1", content="a.txt")]),
                metrics=Metrics(prompt_tokens=20, completion_tokens=5, cost_usd=0.01),
            ),
            Step(
                step_id=3,
                source="agent",
                message="There is a.txt.",
                metrics=Metrics(prompt_tokens=30, completion_tokens=6, cost_usd=0.02),
            ),
        ],
        final_metrics=FinalMetrics(total_prompt_tokens=50, total_completion_tokens=11, total_cost_usd=0.03),
    )


def trial(folder: Path, task: str, number: int, rewards: dict[str, float] | None, error: str | None) -> TrialResult:
    """One trial with its files."""
    name = f"{task}__{number}"
    place = folder / name
    (place / "agent").mkdir(parents=True)
    result = TrialResult(
        task_name=task,
        trial_name=name,
        trial_uri=place.as_uri(),
        task_id=LocalTaskId(path=Path("tasks") / task),
        source="files",
        task_checksum=f"sum-of-{task}",
        config=TrialConfig(task=TaskConfig(path=Path("tasks") / task), trial_name=name),
        agent_info=AgentInfo(name="mini", version="1.2", model_info=ModelInfo(name="small", provider="local")),
        agent_result=AgentContext(n_input_tokens=50, n_output_tokens=11, cost_usd=0.03),
        verifier_result=None if rewards is None else VerifierResult(rewards=rewards),
        exception_info=None
        if error is None
        else ExceptionInfo(
            exception_type=error, exception_message="it broke", exception_traceback="…", occurred_at=BEGAN
        ),
        started_at=BEGAN,
        finished_at=BEGAN + timedelta(seconds=60),
        agent_execution=TimingInfo(started_at=BEGAN, finished_at=BEGAN + timedelta(seconds=40)),
    )
    (place / "result.json").write_text(result.model_dump_json(indent=4))
    (place / "agent" / "trajectory.json").write_text(json.dumps(trajectory(name).to_json_dict()))
    return result


def main(folder: Path) -> None:
    """Write the job."""
    results = [
        trial(folder, "one", 1, {"reward": 1.0}, None),
        trial(folder, "one", 2, {"reward": 0.0}, None),
        trial(folder, "two", 1, {"reward": 0.5, "style": 0.25}, None),
        trial(folder, "two", 2, {"reward": 0.25}, "AgentTimeoutError"),
        trial(folder, "three", 1, None, "EnvironmentStartTimeoutError"),
        trial(folder, "three", 2, None, "ApiRateLimitError"),
        trial(folder, "three", 3, None, "RewardFileNotFoundError"),
    ]
    stats = JobStats.from_trial_results(results, n_total_trials=len(results))
    job = JobResult(id=uuid4(), started_at=BEGAN, n_total_trials=len(results), stats=stats)
    (folder / "result.json").write_text(job.model_dump_json(indent=4, exclude={"trial_results"}))
    valid = [result.verifier_result.rewards["reward"] for result in results if result.reward_valid or _is_clean(result)]
    sys.stdout.write(json.dumps({"count": len(results), "scored": len(valid), "mean": sum(valid) / len(valid)}))


def _is_clean(result: TrialResult) -> bool:
    return result.exception_info is None and result.verifier_result is not None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
