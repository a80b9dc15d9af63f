"""`reward` for slime's `--custom-rm-path`: scores answers that slime generated, by an environment's verifier."""

from collections.abc import Sequence
from typing import Any, cast

import anyio.to_thread

from rollouthub.export.not_trainable import Refusal
from rollouthub.trainers.blocking_scorer import scorer_for
from rollouthub.trainers.scorer import Verdict
from rollouthub.trainers.slime.sample import KEY, SlimeSample, task_of


async def reward(args: Any, asked: SlimeSample | Sequence[SlimeSample], **kwargs: Any) -> Any:
    """The reward of a sample, or the rewards of several; an unscored sample is removed from the loss.

    slime cannot represent a missing reward: in the log the reward is 0, but `remove_sample` masks the sample, and
    `keep_group` drops its group.

    Raises:
        ConfigError: `ROLLOUTHUB_SCORER` names no environment, or a sample names no task.
    """
    is_one = not isinstance(asked, (list, tuple))
    samples = [cast(SlimeSample, asked)] if is_one else list(cast(Sequence[SlimeSample], asked))
    pairs = [(task_of(sample), sample.response) for sample in samples]
    verdicts = await anyio.to_thread.run_sync(lambda: scorer_for().judge_all(pairs))
    key = getattr(args, "reward_key", None)
    rewards = [_reward(sample, verdict, key) for sample, verdict in zip(samples, verdicts, strict=True)]
    return rewards[0] if is_one else rewards


def _reward(sample: SlimeSample, verdict: Verdict, key: str | None) -> Any:
    score = verdict.score
    if score is None:
        sample.remove_sample = True
        record = {"refused": Refusal.UNSCORED.value, "reason": verdict.problem}
        sample.metadata = {**(sample.metadata or {}), KEY: record}
        return {key: 0.0} if key else 0.0
    if key is None:
        return score.reward
    return {**{name: part.value for name, part in score.components.items()}, key: score.reward}
