"""Converts rollouts to slime's samples."""

import copy
from pathlib import Path
from typing import Any, Protocol, cast

from rollouthub.export import RefusalReason, TaskReference, TrainingRow, training_rows, why_refused
from rollouthub.export.task_column import find_task
from rollouthub.rollout import ONLY_SEAT, Rollout
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import row_tensors, shows_media

KEY = "rollouthub"
"""Key in a sample's metadata for the hub's notes."""


class SlimeSample(Protocol):
    """The fields that the hub reads and writes of slime's class `Sample`."""

    Status: Any
    group_index: int | None
    index: int | None
    rollout_id: int | None
    label: str | None
    tokens: list[int]
    response: str
    response_length: int
    reward: float | dict[str, Any] | None
    loss_mask: list[int] | None
    weight_versions: list[str]
    rollout_log_probs: list[float] | None
    multimodal_train_inputs: dict[str, Any] | None
    remove_sample: bool
    status: Any
    metadata: dict[str, Any]
    non_generation_time: float


def task_of(sample: SlimeSample) -> TaskReference:
    """The task of a sample, from its metadata (`environment`, `split`, `task_id`) or its label.

    Raises:
        ConfigError: the sample names no task.
    """
    return find_task(sample.metadata, sample.label)


def seeing_samples(
    rollout: Rollout,
    sample: SlimeSample,
    reward_key: str | None,
    directory: Path,
    pictures: PromptPictures | None,
    seat: str | None = None,
) -> list[SlimeSample]:
    """`samples_of`, with each sample's image inputs for the model in `multimodal_train_inputs`.

    Raises:
        ConfigError: the rollout shows pictures, and there is no processor.
        ModelError: a picture cannot be opened, or the processor refuses it.
        StoreError, UnknownNameError: a picture's bytes are not in the run's directory, or were altered.
    """
    filled = samples_of(rollout, sample, reward_key, seat)
    if why_refused(rollout, seat=seat) is None and shows_media(rollout):
        for each, row in zip(filled, training_rows(rollout, seat=seat), strict=True):
            each.multimodal_train_inputs = row_tensors(row, directory, pictures) or None
    return filled


def samples_of(
    rollout: Rollout, sample: SlimeSample, reward_key: str | None = None, seat: str | None = None
) -> list[SlimeSample]:
    """The samples of a rollout: one, or several with a common `rollout_id` if the rollout forked or has several seats;
    with `seat`, only that seat's.

    A rollout that must not be trained on becomes one sample that slime removes from the loss (`remove_sample`), with
    status FAILED and the reason in its metadata. A rollout that slime itself aborted has status ABORTED instead.
    """
    if (refused := why_refused(rollout, seat=seat)) is not None:
        if any(fault.type == "GenerationAborted" for fault in rollout.faults):
            return [_aborted(rollout, sample)]
        return [_removed(rollout, sample, refused, reward_key)]
    rows = training_rows(rollout, seat=seat)
    # Before any of them is filled: a copy of a filled one would begin with its tokens.
    blanks = [sample, *(copy.deepcopy(sample) for _ in rows[1:])]
    return [_filled(blank, row, reward_key) for blank, row in zip(blanks, rows, strict=True)]


def _filled(sample: SlimeSample, row: TrainingRow, reward_key: str | None) -> SlimeSample:
    rollout = row.rollout
    sample.tokens = list(row.segment.token_ids)
    sample.response_length = len(sample.tokens) - row.segment.prompt_length
    sample.loss_mask = row.response_mask
    sample.rollout_log_probs = row.response_logprobs
    sample.response = rollout.turns[row.turns[-1]].response.text
    sample.reward = {**row.components, reward_key: row.reward} if reward_key else row.reward
    versions = [rollout.turns[turn].policy_version for turn in row.turns]
    sample.weight_versions = [str(version) for version in versions if version is not None]
    sample.status = sample.Status.TRUNCATED if row.is_truncated else sample.Status.COMPLETED
    sample.remove_sample = False
    if row.count > 1 and sample.rollout_id is None:
        sample.rollout_id = sample.index
    _note(sample, rollout, row=row.index, rows=row.count, seat=row.seat, components=row.components)
    return sample


def _removed(rollout: Rollout, sample: SlimeSample, refused: RefusalReason, reward_key: str | None) -> SlimeSample:
    """A sample that is masked in the loss: slime requires tokens and a reward of every sample."""
    sample.tokens, sample.response_length = [0, 0], 1
    sample.loss_mask, sample.rollout_log_probs = [0], [0.0]
    sample.reward, sample.remove_sample = {reward_key: 0.0} if reward_key else 0.0, True
    sample.status = sample.Status.FAILED
    _note(sample, rollout, refused=refused.refusal.value, reason=refused.reason)
    return sample


def _aborted(rollout: Rollout, sample: SlimeSample) -> SlimeSample:
    """A sample that slime aborted, otherwise unchanged, so that slime plays it again from the start."""
    sample.status = sample.Status.ABORTED
    _note(sample, rollout)
    return sample


def _note(sample: SlimeSample, rollout: Rollout, **more: Any) -> None:
    times = rollout.timings
    sample.non_generation_time = times.setup + times.tool + times.verify
    record = {"run_id": rollout.run_id, "rollout_id": rollout.rollout_id, "outcome": rollout.outcome.value, **more}
    sample.metadata = {**(sample.metadata or {}), KEY: record}


def seat_of(sample: SlimeSample) -> str:
    """The seat whose turns a sample has."""
    noted = cast(dict[str, Any], (sample.metadata or {}).get(KEY, {}))
    return noted.get("seat", ONLY_SEAT)


def refusal_of(sample: SlimeSample) -> str | None:
    """The reason, by name, why a sample must not be trained on; None if it may."""
    noted = cast(dict[str, Any], (sample.metadata or {}).get(KEY, {}))
    return noted.get("refused")
