"""Mixed data sets: each row is scored by the reward of the source it came from."""

from collections.abc import Mapping
from typing import Any

from rollouthub.authoring.rewards.reward_function import RewardFunction, apply
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.score import Score, Submission
from rollouthub.task import Public, Task


class RewardBySource:
    """Scores each task by the reward function of its `public.source`; itself a reward function.

        reward = RewardBySource({"gsm8k": number, "humaneval": unit_tests})

    A source without a reward function is refused, unless a `default` is given. Call `choose` while tasks are made, so
    that a missing function is found before any rollout.

    Raises:
        ValueError: it has neither a source nor a default.
    """

    def __init__(self, rewards: Mapping[str, RewardFunction], *, default: RewardFunction | None = None) -> None:
        if not rewards and default is None:
            raise ValueError("rewards by source need at least one source, or a default")
        self._rewards = dict(rewards)
        self._default = default

    def choose(self, public: Public) -> RewardFunction:
        """The reward function of a task.

        Raises:
            UnknownNameError: its source has no reward function, and there is no default.
            ConfigError: it names no source, and there is no default.
        """
        source = public.source
        chosen = self._rewards.get(source, self._default) if source is not None else self._default
        if chosen is not None:
            return chosen
        if source is None:
            known = ", ".join(sorted(self._rewards))
            raise ConfigError(f"task {public.id!r} names no source; there are rewards for: {known}; or give a default")
        hint = f"Task {public.id!r} comes from it: add its reward or give a default."
        raise UnknownNameError("source with a reward", source, self._rewards, hint)

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Score a submission by its task's own reward.

        Raises:
            UsageError: the task's source is unknown or missing, and there is no default.
            ValueError: the reward function returned no finite reward.
        """
        return await apply(self.choose(task.public), task.public.source or "default", task, submission)
