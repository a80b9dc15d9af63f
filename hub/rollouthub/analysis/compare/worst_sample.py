"""The rollout that shows best why a task differs."""

from rollouthub.analysis.compare.compared_run import ComparedTask
from rollouthub.live.follow.attempt_columns import AttemptColumns


def worst_place(columns: AttemptColumns, key: ComparedTask) -> int | None:
    """Index of a task's rollout with the lowest reward, or of its first sample if none is scored; None if it has no
    sample.
    """
    words = columns.words
    codes = tuple(words[name].code(word) for name, word in zip(("environment", "split", "task_id"), key, strict=False))
    environments, splits, tasks = (words[name].codes for name in ("environment", "split", "task_id"))
    mine = [
        place
        for place in columns.effective_places(0, len(columns))
        if (environments[place], splits[place], tasks[place]) == codes
    ]
    rewards = columns.numbers["reward"]
    scored = [place for place in mine if rewards[place] == rewards[place]]
    return min(scored, key=lambda place: rewards[place]) if scored else mine[0] if mine else None
