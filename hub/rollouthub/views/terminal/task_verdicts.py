"""Mark, word and colour for how a task differs between two runs."""

from rollouthub.analysis.compare.task_pairs import TaskDifference

VERDICTS = {
    "worse": ("▼ worse", "red"),
    "better": ("▲ better", "green"),
    "lower": ("▽ lower", ""),
    "higher": ("△ higher", ""),
    "same": ("= same", ""),
    "unscored": ("? not scored", "yellow"),
}
"""The mark, word and colour for each verdict."""


def verdict(task: TaskDifference) -> str:
    """The verdict on a task: `worse` and `better` are significant, `lower` and `higher` may be chance."""
    difference = task.difference
    if difference is None:
        return "unscored"
    if not difference:
        return "same"
    if task.is_real:
        return "worse" if difference < 0 else "better"
    return "lower" if difference < 0 else "higher"
