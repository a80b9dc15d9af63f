"""NeMo-RL: rollouts as NeMo Gym results, an actor that plays episodes for its trainer, an environment, and data sets.

`HubEnvironment` and `HubGym` are created on first access, because they derive from NeMo-RL's classes and are Ray
actors.
"""

from typing import TYPE_CHECKING, Any

from rollouthub.trainers.nemo_rl.exports import gym_rows, write_gym_data, write_gym_results, write_prompts
from rollouthub.trainers.nemo_rl.results import gym_result

if TYPE_CHECKING:
    HubEnvironment: Any
    HubGym: Any

__all__ = [
    "HubEnvironment",
    "HubGym",
    "gym_result",
    "gym_rows",
    "register",
    "use_hub_gym",
    "write_gym_data",
    "write_gym_results",
    "write_prompts",
]


def __getattr__(name: str) -> Any:
    if name == "HubEnvironment":
        from rollouthub.trainers.nemo_rl.verdict_environment import environment_actor

        found: Any = environment_actor()
    elif name == "HubGym":
        from rollouthub.trainers.nemo_rl.gym import gym_actor

        found = gym_actor()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def register(name: str = "hub") -> None:
    """Register `HubEnvironment` with NeMo-RL as `name`, for `env.NAME` and `data.*.env_name: NAME`; call it before
    `setup`.
    """
    from rollouthub.trainers.nemo_rl.verdict_environment import register_environment

    register_environment(name)


def use_hub_gym() -> None:
    """Make NeMo-RL's `env.should_use_nemo_gym` start `HubGym` instead of NeMo Gym's servers; call it before `setup`."""
    from rollouthub.trainers.nemo_rl.gym import use_hub_gym as use

    use()
