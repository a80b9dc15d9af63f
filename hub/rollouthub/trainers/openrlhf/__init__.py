"""OpenRLHF: its agent executor over rollouts of the hub's, and its remote reward route over a verifier.

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
