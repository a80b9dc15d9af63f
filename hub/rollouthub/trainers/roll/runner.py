"""`HubAgentRunner`: episodes of the hub's, whose model is ROLL's proxy."""

from typing import Any

from rollouthub.errors import SupplyError
from rollouthub.rollout import Rollout
from rollouthub.trainers.roll.callers import ProxyCaller
from rollouthub.trainers.roll.play import SharedWorker, metrics_of, stage, step_scores, why_unscored
from rollouthub.trainers.systems import system_module


def agent_runner() -> Any:
    """The class, over ROLL's own base class."""
    module: Any = system_module("roll.pipeline.agentic.agent_runner.base")
    base: Any = module.AgentRunner

    class HubAgentRunner(base):
        """Plays the task of each seed; all members of a group share theirs.

        In the environment's `env_config`: `environment`, `split`, `settings` (a file, in place of
        `ROLLOUTHUB_TRAINING`), and `episodes` after which there is no data any more.
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType] it is ROLL's own
            self._stage = stage(self.env_params.get("settings"))
            self._left: int | None = self.env_params.get("episodes")

        def run_job(self, seed: int) -> Any:
            """Play an episode; its score, or a failure that says why there is none."""
            if self._left == 0:
                return module.EpisodeResult(status="NoData", score=0.0)
            rollout = played(self._stage, self.base_url, self.env_id, seed, self.env_params)
            if rollout is None:
                return module.EpisodeResult(status="NoData", score=0.0)
            if self._left is not None:
                self._left -= 1
            return module.EpisodeResult(**result_of(rollout))

    return HubAgentRunner


def played(at: SharedWorker, base_url: str, env_id: int, seed: int, params: dict[str, Any]) -> Rollout | None:
    """Play the task of a seed against a proxy; None where there is no task, or the run has ended.

    Raises:
        UsageError: the settings do not hold.
    """
    task = at.task(seed, params.get("environment"), params.get("split"))
    if task is None:
        return None
    session = at.session
    assert session is not None, "whoever listed the tasks opened the worker"
    caller = at.model.add(ProxyCaller(base_url, env_id, session))
    try:
        return at.resident.begin(at.wanted(task, seed, caller)).result()
    except SupplyError:  # a limit of the run
        return None
    finally:
        at.model.remove(caller)


def result_of(rollout: Rollout) -> dict[str, Any]:
    """The fields of ROLL's episode result.

    ROLL has no word for a score that is none: such an episode is `Failed`, says so in its `finish_reason`, and
    `HubGroupFilter` drops its group.
    """
    metrics = metrics_of(rollout)
    problem = why_unscored(rollout)
    if problem is not None:
        return {
            "status": "Failed",
            "score": 0.0,
            "step_scores": [],
            "agent_exit_reason": problem,
            "metrics": {**metrics, "finish_reason": problem},
        }
    assert rollout.reward is not None
    return {
        "status": "Finished",
        "score": rollout.reward,
        "step_scores": step_scores(rollout),
        "agent_exit_reason": "",
        "metrics": metrics,
    }
