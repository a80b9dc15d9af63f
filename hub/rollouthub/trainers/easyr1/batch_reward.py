"""EasyR1's batch reward (`worker.reward.reward_function`), and the rows of its data sets.

The answer column holds the task's reference, because a reward function sees no other column of the row.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from rollouthub.errors import ConfigError, VerifierError
from rollouthub.export import TaskReference
from rollouthub.messages import Message, Text
from rollouthub.task import Public
from rollouthub.trainers.blocking_scorer import scorer_for
from rollouthub.trainers.scorer import Verdict

REWARD_NAME = "rollouthub"
REWARD_TYPE = "batch"

MARK = "<image>"
"""Placeholder in a prompt, which EasyR1 replaces by a picture."""


class RewardInput(TypedDict):
    """EasyR1's input for one answer to score."""

    response: str
    response_length: int
    ground_truth: str


def compute_score(
    reward_inputs: Sequence[RewardInput],
    *,
    components: Sequence[str] = (),
    unscored: Literal["group_mean", "raise"] = "group_mean",
    environments: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> list[dict[str, float]]:
    """The rewards of a batch: `overall`, `accuracy` (1 if the answer passed), `unscored`, and each component named in
    `components` (0 where the score has no such component).

    EasyR1 cannot represent an unscored answer. By default an unscored answer gets, in every value, the mean of the
    scored answers to its task: this leaves the group's baseline unchanged and gives the answer no advantage; `unscored`
    is 1 for it. If no answer to the task is scored, all get 0, and again no advantage. With `unscored="raise"` an
    unscored answer is an error. `environments` says how to open the environments if the names in the tasks do not;
    `settings` are those of a run.

    Raises:
        VerifierError: an answer is unscored, and `unscored` is "raise".
        UsageError: an environment cannot be opened, or a ground truth names no task.
    """
    tasks = [TaskReference.parse(each["ground_truth"]) for each in reward_inputs]
    named = tuple(environments) or tuple(sorted({task.environment for task in tasks}))
    asked = [(task, each["response"]) for task, each in zip(tasks, reward_inputs, strict=True)]
    verdicts = scorer_for(*named, **(settings or {})).judge_all(asked) if asked else []
    if unscored == "raise":
        for task, verdict in zip(tasks, verdicts, strict=True):
            if verdict.score is None:
                raise VerifierError(f"task {task.task_id!r} of {task.environment!r} is unscored: {verdict.problem}")
    return filled(tasks, [values(verdict, components) for verdict in verdicts], components)


def values(verdict: Verdict, components: Sequence[str]) -> dict[str, float] | None:
    """The reported values of one verdict; None if it has no score."""
    score = verdict.score
    if score is None:
        return None
    parts = {name: score.components[name].value if name in score.components else 0.0 for name in components}
    accuracy = score.reward if score.passed is None else float(score.passed)
    return {"overall": score.reward, "accuracy": accuracy, **parts}


def filled(
    tasks: Sequence[TaskReference], found: Sequence[dict[str, float] | None], components: Sequence[str]
) -> list[dict[str, float]]:
    """The rewards, with each unscored answer given the mean of its task's scored answers (0 if there are none)."""
    known: defaultdict[TaskReference, list[dict[str, float]]] = defaultdict(list)
    for task, each in zip(tasks, found, strict=True):
        if each is not None:
            known[task].append(each)
    rows: list[dict[str, float]] = []
    for task, each in zip(tasks, found, strict=True):
        scored = known[task]
        row = each or {
            name: sum(other[name] for other in scored) / len(scored) if scored else 0.0
            for name in ("overall", "accuracy", *components)
        }
        rows.append({**row, "unscored": float(each is None)})
    return rows


def prompt_rows(
    tasks: Iterable[Public], environment: str, split: str, *, pictures: Mapping[str, Path] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows with EasyR1's default columns: `prompt`, `answer` (the task's reference) and, with `pictures`, `images`.

    `tasks` come from `Scorer.tasks` or `RolloutWorker.tasks`, which give only the public part. `pictures` maps a
    picture's digest to its file; if it is given, every row has the column `images`.

    Raises:
        ConfigError: a task shows a picture that `pictures` does not list.
    """
    for task in tasks:
        said = [Message(role="user", content=task.prompt)] if isinstance(task.prompt, str) else list(task.prompt)
        shown: list[str] = []
        words = [task.system] if task.system is not None else []
        words += [_words(message, pictures, shown) for message in said]
        row: dict[str, Any] = {
            "prompt": "\n\n".join(words),
            "answer": str(TaskReference(environment, split, task.id)),
        }
        yield row if pictures is None else {**row, "images": shown}


def _words(message: Message, pictures: Mapping[str, Path] | None, shown: list[str]) -> str:
    if isinstance(message.content, str):
        return message.content
    parts: list[str] = []
    for part in message.content:
        if isinstance(part, Text):
            parts.append(part.text)
            continue
        if pictures is None or part.digest not in pictures:
            raise ConfigError(f"a task shows {part.mime_type} {part.digest}; say in `pictures` where its file is")
        shown.append(str(pictures[part.digest]))
        parts.append(MARK)
    return "\n".join(parts)
