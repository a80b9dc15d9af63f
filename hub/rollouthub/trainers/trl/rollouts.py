"""`rollout_func` for TRL's `GRPOTrainer`: the hub plays the episodes, TRL trains."""

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from rollouthub.errors import ConfigError
from rollouthub.export import (
    NotTrainable,
    Refusal,
    RefusalReason,
    TaskReference,
    TrainingRow,
    check_one_seat,
    training_rows,
)
from rollouthub.generation import Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.stream import BlockingWorker, SampleRequest
from rollouthub.trainers.trl.prompts import task_of

logger = logging.getLogger(__name__)

Take = Literal["longest", "last"]
"""Which row of a forked rollout is trained on, since TRL takes one for each rollout: the row with the most sampled
tokens, or the last row.
"""


class Trainer(Protocol):
    """The attributes that the hub reads of a `trl.GRPOTrainer`."""

    args: Any
    model: Any
    state: Any
    processing_class: Any
    num_generations: int
    num_generations_eval: int
    temperature: float


def rollout_func(
    worker: BlockingWorker,
    *,
    take: Take = "longest",
    sampling: Sampling | None = None,
    name: str | None = None,
    seat: str | None = None,
    moves_weights: bool = False,
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """Make a `rollout_func` that plays each prompt's task in the hub; the data set is that of `prompts_of`.

        args = GRPOConfig(use_vllm=True, vllm_mode="server", vllm_server_base_url="http://127.0.0.1:8000", …)
        with blocking_worker(rollout_worker(environments=("lamp.py",), model="hosted_vllm/NAME", …)) as worker:
            GRPOTrainer(model, hub_reward, args, prompts_of(worker), rollout_func=rollout_func(worker)).train()

    TRL moves its weights into that server before it asks for rollouts. `moves_weights` says that the caller does it in
    TRL's place, or serves the weights that are trained as they are. A policy that nobody updates is refused.

    The policy samples at the trainer's temperature, which its loss assumes, and otherwise with the run's settings;
    `sampling` overrides both. `name` is the prefix of group names: a name that was used before in the run's directory
    returns the rollouts stored there, so by default a new one is made. The column `reward` has the rewards,
    `components` their components; a rollout that must not be trained on is a masked row with the reward None, which TRL
    leaves out of its group. Where the policy plays several seats, `seat` names the one that is trained: TRL takes one
    row for each rollout and compares them all, and seats are not comparable. Use it with the reward function
    `hub_reward`.

    Raises (where it is called):
        ConfigError: TRL moves its weights to no server, and nobody else does.
        NotTrainable: no rollout of the batch may be trained on, for a permanent reason.
    """
    run = uuid.uuid4().hex if name is None else name
    calls = 0

    def play(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        nonlocal calls
        calls += 1
        if not moves_weights:
            _check_moved(trainer)
        worker.policy_version = trainer.state.global_step
        wanted = groups_of(
            [task_of(prompt) for prompt in prompts],
            _group_size(trainer),
            f"{run}/{trainer.state.global_step}.{calls}",
            _sampling(trainer, sampling),
        )
        return columns(worker.play_all(wanted), take, trainer.processing_class.eos_token_id, seat)

    return play


def _check_moved(trainer: Trainer) -> None:
    """Refuse a policy that stays as it is while the trainer learns.

    Raises:
        ConfigError: TRL does not move its weights to a server.
    """
    if not (trainer.args.use_vllm and trainer.args.vllm_mode == "server"):
        raise ConfigError(
            "nothing moves the trained weights to the policy that the hub plays; use GRPOConfig(use_vllm=True, "
            'vllm_mode="server", vllm_server_base_url=…), or rollout_func(worker, moves_weights=True) if you move them'
        )


def hub_reward(prompts: Sequence[Any], reward: Sequence[float | None], **rest: Any) -> list[float | None]:
    """The verifier's reward of each rollout; None if it is unscored or must not be trained on."""
    return list(reward)


def groups_of(
    tasks: Sequence[TaskReference], group_size: int, mark: str, sampling: Sampling | None = None
) -> list[SampleRequest]:
    """The sample requests for a batch: prompts come repeated, and each `group_size` of one task form a group with
    one environment seed. If the environment scores groups, a process must be given whole groups.
    """
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
                group_size=group_size,
            )
        )
    return wanted


def columns(rollouts: Sequence[Rollout], take: Take, end_id: int, seat: str | None = None) -> dict[str, list[Any]]:
    """A batch in TRL's form: one row for each rollout, in their order; with `seat`, a row of that seat.

    Raises:
        NotTrainable: every rollout is refused, and at least one for a permanent reason, such as missing
        log-probabilities.
        ConfigError: a rollout shows pictures, which TRL takes from its data set only, not from a `rollout_func`.
    """
    no_pictures(rollouts, "use HubSpec, whose episodes show them to TRL's own generation")
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
            rows = training_rows(rollout, seat=seat)
            if seat is None:
                check_one_seat(rollout, "a row of TRL's")
        except NotTrainable as error:
            refusals.append(error.refused)
            row = _masked(end_id, error.refused)
        else:
            row = _row(chosen(rows, take))
        row["rollout_id"] = rollout.rollout_id
        for key, values in found.items():
            values.append(row[key])
    _log_refusals(refusals, len(rollouts))
    return found


def chosen(rows: Sequence[TrainingRow], take: Take) -> TrainingRow:
    """The row of a rollout that is trained on."""
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
    """A masked row, because TRL needs one row for each prompt."""
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


def _log_refusals(refusals: Sequence[RefusalReason], count: int) -> None:
    """Log which rollouts are left out.

    Raises:
        NotTrainable: all rollouts are refused, and at least one is scored but refused, so that every later batch would
        be refused too.
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
    """Sampling at the trainer's temperature, because TRL's loss divides logits by it; `sampling` overrides it."""
    fields: dict[str, Any] = {} if sampling is None else sampling.model_dump(exclude_unset=True)
    return Sampling.model_validate({"temperature": trainer.temperature, **fields})
