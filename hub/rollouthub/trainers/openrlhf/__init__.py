"""OpenRLHF: an agent executor that plays the hub's rollouts, and a remote reward function over the hub's verifiers.

`--train.agent_func_path` takes `../openrlhf_agent.py`, `--reward.remote_url` takes `../openrlhf_reward.py`.
"""

from rollouthub.trainers.openrlhf.executor import LlmEngine, agent_executor, execute, longest, response_of, runs
from rollouthub.trainers.openrlhf.reward_route import answer_of, asked_of, reward_func, reward_reply

__all__ = [
    "LlmEngine",
    "agent_executor",
    "answer_of",
    "asked_of",
    "execute",
    "longest",
    "response_of",
    "reward_func",
    "reward_reply",
    "runs",
]
