"""OpenRLHF's remote reward (`--reward.remote_url`), computed by the verifier of the task that each label names."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference
from rollouthub.trainers.blocking_scorer import scorer_for
from rollouthub.trainers.policy_answer import without_end_marks
from rollouthub.trainers.scorer import Verdict


def answer_of(query: str, prompt: str) -> str:
    """The answer's text in a query, which holds the prompt followed by the answer.

    Raises:
        ConfigError: the query does not contain the prompt, because it was truncated or decoded differently.
    """
    before, found, answer = query.partition(prompt)
    if not found or len(before) > len(prompt):
        raise ConfigError(f"a query lacks its prompt {prompt[:100]!r}; is --data.max_len too short for it?")
    return without_end_marks(answer).rstrip()


def asked_of(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]) -> list[tuple[TaskReference, str]]:
    """The task and the answer to score, for each query and its label.

    Raises:
        ConfigError: the lists differ in length, a label names no task, or a query lacks its prompt.
    """
    if not len(queries) == len(prompts) == len(labels):
        raise ConfigError(f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels are no pairs")
    return [
        (TaskReference.parse(label), answer_of(query, prompt))
        for query, prompt, label in zip(queries, prompts, labels, strict=True)
    ]


def reward_reply(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The reply of the reward route: rewards, the same numbers as scores, and each component that all verdicts have.

    Raises:
        NotTrainable: an answer could not be scored. OpenRLHF cannot represent that, and a reward of 0 would be wrong.
    """
    rewards: list[float] = []
    components: list[dict[str, float]] = []
    for verdict in verdicts:
        if verdict.score is None:
            raise NotTrainable(RefusalReason(Refusal.UNSCORED, verdict.problem or "an answer could not be scored"))
        rewards.append(verdict.score.reward)
        components.append({name: part.value for name, part in verdict.score.components.items()})
    names = [name for name in (components[0] if components else ()) if all(name in each for each in components)]
    logs = {name: [each[name] for each in components] for name in names}
    return {"rewards": rewards, "scores": list(rewards), "extra_logs": logs}


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str], **kwargs: Any) -> dict[str, Any]:
    """For `--reward.remote_url FILE.py`: the values of `reward_reply` as tensors [query].

    Raises:
        ConfigError: `ROLLOUTHUB_SCORER` names no environment, or see `asked_of`.
        NotTrainable: an answer could not be scored.
    """
    reply = reward_reply(scorer_for().judge_all(asked_of(queries, prompts, labels)))
    tensor: Any = import_module("torch").tensor
    return {
        "rewards": tensor(reply["rewards"]),
        "scores": tensor(reply["scores"]),
        "extra_logs": {name: tensor(values) for name, values in reply["extra_logs"].items()},
    }
