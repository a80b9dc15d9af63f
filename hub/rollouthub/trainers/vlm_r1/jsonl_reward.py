"""VLM-R1: a reward function for its trainer's registry, and data sets as JSON lines with references to pictures.

VLM-R1 looks up reward functions by name in `open_r1.grpo_jsonl.reward_funcs_registry`: put `hub_reward` there.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rollouthub.errors import ConfigError, VerifierError
from rollouthub.export import TaskReference
from rollouthub.export.task_rows import COLUMN, write_rows
from rollouthub.messages import Message, Text
from rollouthub.task import Public
from rollouthub.trainers.blocking_scorer import scorer_for

logger = logging.getLogger(__name__)

Unscored = Literal["group_mean", "none", "raise"]
MARK = "<image>"
"""Placeholder in a conversation, at which VLM-R1 shows a picture."""
_OPENS, _CLOSES = "<answer>", "</answer>"


def hub_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    unscored: Unscored = "group_mean",
    environments: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    **columns: Sequence[Any],
) -> list[float | None]:
    """The reward of each completion, by the verifier of the task that the row's column `rollouthub` names.

    VLM-R1 cannot represent an unscored answer. By default it gets the mean of the scored answers to its task, which
    leaves the group's baseline unchanged; if no answer to the task is scored, that is an error. `unscored="none"`
    returns None, which trainers of TRL from 0.17 leave out and VLM-R1 fails on; `"raise"` always raises. `environments`
    says how to open the environments if the names in the tasks do not; `settings` are those of a run.

    Raises:
        VerifierError: an answer is unscored and is not given a substitute.
        UsageError: an environment cannot be opened, or a row names no task.
    """
    if COLUMN not in columns:
        raise ConfigError(
            f"the data set has no column {COLUMN!r}; write it with rollouthub.trainers.vlm_r1.write_jsonl"
        )
    tasks = [TaskReference.parse(name) for name in columns[COLUMN]]
    named = tuple(environments) or tuple(sorted({task.environment for task in tasks}))
    asked = [(task, answer_of(completion)) for task, completion in zip(tasks, completions, strict=True)]
    if not asked:
        return []
    verdicts = scorer_for(*named, **(settings or {})).judge_all(asked)
    rewards = [verdict.reward for verdict in verdicts]
    problems = [verdict.problem for verdict in verdicts if verdict.score is None]
    if not problems:
        return rewards
    logger.warning("%d of %d answers are unscored; the first: %s", len(problems), len(asked), problems[0])
    if unscored == "raise":
        raise VerifierError(f"{len(problems)} of {len(asked)} answers are unscored; the first: {problems[0]}")
    return rewards if unscored == "none" else _filled(tasks, rewards)


def answer_of(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """The answer's text: the content of the last `<answer>` tags, which VLM-R1's questions ask for, or the whole
    text.
    """
    text = completion if isinstance(completion, str) else str(completion[-1]["content"])
    answer, end = text, 0
    while (begin := text.find(_OPENS, end)) >= 0:
        close = text.find(_CLOSES, begin)
        if close < 0:
            break
        answer, end = text[begin + len(_OPENS) : close].strip(), close + len(_CLOSES)
    return answer


def _filled(tasks: Sequence[TaskReference], rewards: Sequence[float | None]) -> list[float | None]:
    known: defaultdict[TaskReference, list[float]] = defaultdict(list)
    for task, reward in zip(tasks, rewards, strict=True):
        if reward is not None:
            known[task].append(reward)
    filled: list[float | None] = []
    for task, reward in zip(tasks, rewards, strict=True):
        if reward is None:
            if not known[task]:
                raise VerifierError(f"not one answer to task {task.task_id!r} of {task.environment!r} is scored")
            reward = math.fsum(known[task]) / len(known[task])
        filled.append(reward)
    return filled


def jsonl_rows(
    tasks: Iterable[Public],
    environment: str,
    split: str,
    *,
    image_folder: Path | str = ".",
    pictures: Mapping[str, Path] | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows in VLM-R1's format: `id`, `image`, `conversations`, and the task's name in `rollouthub`.

    `tasks` come from `Scorer.tasks` or `RolloutWorker.tasks`, which give only the public part; VLM-R1's field for the
    reference answer is empty. `pictures` maps a picture's digest to its file, which must be within `image_folder`.

    Raises:
        ConfigError: a task shows a picture that `pictures` does not list, or whose file is not within the folder.
    """
    folder = Path(image_folder).resolve()
    for task in tasks:
        said = [Message(role="user", content=task.prompt)] if isinstance(task.prompt, str) else list(task.prompt)
        shown: list[str] = []
        words = [task.system] if task.system is not None else []
        words += [_words(message, folder, pictures or {}, shown) for message in said]
        row: dict[str, Any] = {
            "id": task.id,
            "conversations": [
                {"from": "human", "value": MARK * len(shown) + "\n\n".join(words)},
                {"from": "gpt", "value": ""},
            ],
            COLUMN: str(TaskReference(environment, split, task.id)),
        }
        if shown:
            row["image"] = shown[0] if len(shown) == 1 else shown
        yield row


def write_jsonl(
    path: Path | str,
    tasks: Iterable[Public],
    environment: str,
    split: str,
    *,
    image_folder: Path | str = ".",
    pictures: Mapping[str, Path] | None = None,
) -> int:
    """Write `jsonl_rows` for `--data_file_paths`. Returns the number of rows."""
    return write_rows(path, jsonl_rows(tasks, environment, split, image_folder=image_folder, pictures=pictures))


def _words(message: Message, folder: Path, pictures: Mapping[str, Path], shown: list[str]) -> str:
    if isinstance(message.content, str):
        return message.content.replace(MARK, "")
    for part in message.content:
        if isinstance(part, Text):
            continue
        if part.digest not in pictures:
            raise ConfigError(f"a task shows {part.mime_type} {part.digest}; say in `pictures` where its file is")
        file = pictures[part.digest].resolve()
        if not file.is_relative_to(folder):
            raise ConfigError(f"the picture {file} is not within {folder}, where VLM-R1 looks for pictures")
        shown.append(str(file.relative_to(folder)))
    return message.text.replace(MARK, "")
