"""A reward function for veRL over the environment's verifier, for tasks that are answered in one message."""

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

    `ground_truth` is the task's reference. `components` are the reward components to report. `settings` are those of a
    run, such as `{"set": {…}}`, and `environments` if the task's environment is not found by its name. veRL cannot
    represent an unscored answer: by default the function raises, and veRL fails the sample; `unscored` is a number to
    return instead.

    Raises:
        VerifierError: the answer is unscored, and `unscored` is None.
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
