"""`rollout_func` for TRL's `GRPOTrainer`: the hub plays, TRL learns."""

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, TrainingRow, training_rows
from rollouthub.protocols import Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import BlockingWorker, SampleRequest
from rollouthub.trainers.trl.prompts import task_of

logger = logging.getLogger(__name__)

Take = Literal["longest", "last"]
"""Which row of a rollout that forked is learnt from, for TRL takes one a rollout: that with most sampled tokens, or the
one it ended with."""


class Trainer(Protocol):
    """What is read of a `trl.GRPOTrainer`."""

    model: Any
    state: Any
    processing_class: Any
    num_generations: int
    num_generations_eval: int
    temperature: float


def rollout_func(
    worker: BlockingWorker, *, take: Take = "longest", sampling: Sampling | None = None, name: str | None = None
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """Make a `rollout_func` that plays each prompt's task in the hub; the data set is that of `prompts_of`.

        with blocking_worker(rollout_worker(environments=("lamp.py",), model="hosted_vllm/NAME", …)) as worker:
            GRPOTrainer(model, hub_reward, args, prompts_of(worker), rollout_func=rollout_func(worker)).train()

    The policy samples at the trainer's temperature, which its loss assumes, and otherwise as the run says; `sampling`
    comes on top. `name` begins the names of groups: a name that was used in the run's directory before gives the
    rollouts that are there, so by default it is a new one. Rewards stand under `reward`, the parts they are made of
    under `components`; a rollout that must not be learnt from is a masked row whose reward is None, which TRL leaves
    out of its group. `hub_reward` is the reward function that goes with it.
    """
    run = uuid.uuid4().hex if name is None else name
    calls = 0

    def play(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        nonlocal calls
        calls += 1
        worker.policy_version = trainer.state.global_step
        wanted = groups_of(
            [task_of(prompt) for prompt in prompts],
            _group_size(trainer),
            f"{run}/{trainer.state.global_step}.{calls}",
            _sampling(trainer, sampling),
        )
        return columns(worker.play_all(wanted), take, trainer.processing_class.eos_token_id)

    return play


def hub_reward(prompts: Sequence[Any], reward: Sequence[float | None], **rest: Any) -> list[float | None]:
    """What the hub's verifier gave each rollout; None where there is no verdict, or none that may be learnt from."""
    return list(reward)


def groups_of(
    tasks: Sequence[TaskReference], group_size: int, mark: str, sampling: Sampling | None = None
) -> list[SampleRequest]:
    """What to play: prompts come repeated, so each `group_size` of one task are a group, and share its world's seed."""
    seen = Counter[TaskReference]()
    wanted: list[SampleRequest] = []
    for task in tasks:
        group, sample = divmod(seen[task], group_size)
        seen[task] += 1
        wanted.append(
            SampleRequest(
                task.task_id,
                environment=task.environment,
                split=task.split or None,
                group=f"{mark}.{group}",
                sample=sample,
                sampling=sampling,
            )
        )
    return wanted


def columns(rollouts: Sequence[Rollout], take: Take, end_id: int) -> dict[str, list[Any]]:
    """A batch as TRL takes it: a row for each rollout, in their order.

    Raises:
        NotTrainable: the model's server gives none of them what is learnt from.
    """
    found: dict[str, list[Any]] = {
        key: []
        for key in (
            "prompt_ids",
            "completion_ids",
            "logprobs",
            "env_mask",
            "reward",
            "components",
            "rollout_id",
            "refused",
            "row_count",
        )
    }
    refusals: list[RefusalReason] = []
    for rollout in rollouts:
        try:
            rows = training_rows(rollout)
        except NotTrainable as error:
            refusals.append(error.refused)
            row = _masked(end_id, error.refused)
        else:
            row = _row(chosen(rows, take))
        row["rollout_id"] = rollout.rollout_id
        for key, values in found.items():
            values.append(row[key])
    _tell(refusals, len(rollouts))
    return found


def chosen(rows: Sequence[TrainingRow], take: Take) -> TrainingRow:
    """The one row of a rollout that is learnt from."""
    if take == "last":
        return rows[-1]
    return max(rows, key=lambda row: (sum(row.response_mask), row.index))


def _row(row: TrainingRow) -> dict[str, Any]:
    return {
        "prompt_ids": row.prompt_ids,
        "completion_ids": row.response_ids,
        "logprobs": row.response_logprobs,
        "env_mask": row.response_mask,
        "reward": row.reward,
        "components": row.components,
        "refused": None,
        "row_count": row.count,
    }


def _masked(end_id: int, refused: RefusalReason) -> dict[str, Any]:
    """A row that weighs nothing: TRL wants one for each prompt."""
    return {
        "prompt_ids": [end_id],
        "completion_ids": [end_id],
        "logprobs": [0.0],
        "env_mask": [0],
        "reward": None,
        "components": None,
        "refused": refused.refusal.value,
        "row_count": 0,
    }


def _tell(refusals: Sequence[RefusalReason], count: int) -> None:
    """Say what was left out.

    Raises:
        NotTrainable: all of them, and not because they broke: the same would happen for ever.
    """
    if not refusals:
        return
    if len(refusals) == count and (settled := [each for each in refusals if each.refusal is not Refusal.UNSCORED]):
        raise NotTrainable(settled[0])
    names = Counter(each.refusal.value for each in refusals)
    logger.warning(
        "%d of %d rollouts are left out: %s; the first: %s",
        len(refusals),
        count,
        ", ".join(f"{name} {number}" for name, number in names.items()),
        refusals[0].reason,
    )


def _group_size(trainer: Trainer) -> int:
    return trainer.num_generations if trainer.model.training else trainer.num_generations_eval


def _sampling(trainer: Trainer, sampling: Sampling | None) -> Sampling:
    """As the trainer samples; TRL's loss divides logits by its temperature, so the policy has to, too."""
    fields: dict[str, Any] = {} if sampling is None else sampling.model_dump(exclude_unset=True)
    return Sampling.model_validate({"temperature": trainer.temperature, **fields})
