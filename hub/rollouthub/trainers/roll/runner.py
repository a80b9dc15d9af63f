"""`HubAgentRunner`: plays episodes of the hub with ROLL's proxy as the model."""

from typing import Any

from rollouthub.errors import SupplyError
from rollouthub.export import one_reward
from rollouthub.rollout import Rollout
from rollouthub.trainers.roll.callers import ProxyCaller
from rollouthub.trainers.roll.env_manager import STEP_SEATS
from rollouthub.trainers.roll.play import SharedWorker, metrics_of, stage, step_scores, why_unscored
from rollouthub.trainers.systems import system_module


def agent_runner() -> Any:
    """Create `HubAgentRunner` as a subclass of ROLL's `AgentRunner`."""
    module: Any = system_module("roll.pipeline.agentic.agent_runner.base")
    base: Any = module.AgentRunner

    class HubAgentRunner(base):
        """Plays the task of each seed; all members of a group have the same seed.

        Keys in the environment's `env_config`: `environment`, `split`, `settings` (a TOML file, instead of
        `ROLLOUTHUB_TRAINING`), and `episodes`, the number of episodes after which the runner reports that there is no
        more data.
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType] it is ROLL's own
            self._stage = stage(self.env_params.get("settings"))
            self._left: int | None = self.env_params.get("episodes")
            is_ours = str(self.env_config.get("env_manager_cls", "")).endswith(".HubEnvManager")
            self._by_seat = is_ours and self.env_params.get("trajectory_mode") == "step"

        def run_job(self, seed: int) -> Any:
            """Play an episode. Returns its score, or a failure with the reason."""
            if self._left == 0:
                return module.EpisodeResult(status="NoData", score=0.0)
            rollout = played(self._stage, self.base_url, self.env_id, seed, self.env_params)
            if rollout is None:
                return module.EpisodeResult(status="NoData", score=0.0)
            if self._left is not None:
                self._left -= 1
            return module.EpisodeResult(**result_of(rollout, by_seat=self._by_seat))

    return HubAgentRunner


def played(at: SharedWorker, base_url: str, env_id: int, seed: int, params: dict[str, Any]) -> Rollout | None:
    """Play the task of a seed with ROLL's proxy as the model. Returns None if there is no task, or the run has ended.

    Raises:
        UsageError: a setting is invalid.
    """
    task = at.task(seed, params.get("environment"), params.get("split"))
    if task is None:
        return None
    pool = at.pool
    assert pool is not None, "the caller that listed the tasks opened the worker"
    caller = at.model.add(ProxyCaller(base_url, env_id, pool))
    try:
        return at.thread_worker.begin(at.wanted(task, seed, caller)).result()
    except SupplyError:  # a limit of the run
        return None
    finally:
        at.model.remove(caller)


def result_of(rollout: Rollout, *, by_seat: bool = False) -> dict[str, Any]:
    """The fields of ROLL's `EpisodeResult`.

    `by_seat` is for `HubEnvManager` with a row for each step, which gives each seat its own reward; other managers take
    one score for all rows, so that an episode whose seats earned different rewards is unscored for them.

    ROLL cannot represent a missing score. An unscored episode therefore has the status `Failed` and the reason in
    `finish_reason`, and `HubGroupFilter` drops its group.
    """
    metrics = metrics_of(rollout)
    problem = why_unscored(rollout, by_seat=by_seat)
    if problem is not None:
        return {
            "status": "Failed",
            "score": 0.0,
            "step_scores": [],
            "agent_exit_reason": problem,
            "metrics": {**metrics, "finish_reason": problem},
        }
    turns = rollout.policy_turns
    return {
        "status": "Finished",
        "score": rollout.reward if by_seat else one_reward(rollout),
        "step_scores": step_scores(rollout),
        "agent_exit_reason": "",
        "metrics": {**metrics, STEP_SEATS: [(turn.agent, rollout.reward_of(turn.agent)) for turn in turns]},
    }
