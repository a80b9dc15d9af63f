"""A reward function for veRL, for tasks of one answer: the environment's verifier."""

from collections.abc import Mapping
from typing import Any

from rollouthub.errors import VerifierError
from rollouthub.export import TaskReference
from rollouthub.trainers.blocking_scorer import scorer_for


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    components: tuple[str, ...] = (),
    unscored: float | None = None,
    settings: Mapping[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Score one answer: `reward.custom_reward_function.path=pkg://rollouthub.trainers.verl.reward`,
    `name=compute_score`.

    `ground_truth` is the task's reference. `components` are the parts of the reward to report. `settings` are those of
    a run, such as `{"set": {…}}` and, where the task's name is not how its environment is found, `environments`. veRL
    has no word for an unscored answer: it fails its sample, unless `unscored` says what number to take for one.

    Raises:
        VerifierError: there is no score, and `unscored` says nothing.
        UsageError: the task's environment cannot be opened.
    """
    task = TaskReference.parse(ground_truth)
    given = dict(settings or {})
    scorer = scorer_for(*given.pop("environments", (task.environment,)), **given)
    verdict = scorer.judge(task, solution_str)
    nan = float("nan")
    if verdict.score is None:
        if unscored is None:
            raise VerifierError(f"task {task.task_id!r} of {task.environment!r} is unscored: {verdict.problem}")
        return {"score": unscored, "is_scored": 0.0, "passed": nan} | {f"reward/{name}": nan for name in components}
    score = verdict.score
    parts = {f"reward/{name}": score.components[name].value if name in score.components else nan for name in components}
    passed = nan if score.passed is None else float(score.passed)
    return {"score": score.reward, "is_scored": 1.0, "passed": passed} | parts
