"""Converts training rows to a `DataProto`, veRL's batch, and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import Credit, RefusalReason, TrainingRow
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import shows_media
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.batch_columns import RewardPlace, columns
from rollouthub.trainers.verl.learnable import WHOLE, learnable


def data_proto(
    rows: Sequence[TrainingRow],
    pad_token_id: int,
    *,
    prompt_length: int | None = None,
    response_length: int | None = None,
    rewards: RewardPlace = "verdict",
    uids: Sequence[str] | None = None,
    vocabulary: int | None = None,
    logprobs: bool = True,
) -> Any:
    """A `verl.DataProto` of rows; `columns` describes its contents.

    Raises:
        NotTrainable: a row exceeds the given lengths, has another tokenizer, or lacks log-probabilities.
        ConfigError: a row shows pictures, whose tensors veRL's trainer needs and rollouts do not record.
    """
    if shown := next((row.rollout.rollout_id for row in rows if shows_media(row.rollout)), None):
        raise ConfigError(
            f"rollout {shown} shows pictures, and batches made of records have ids alone; leave such rollouts out, or "
            "have veRL play them in the agent loop"
        )
    made = columns(
        rows,
        pad_token_id,
        prompt_length=prompt_length,
        response_length=response_length,
        rewards=rewards,
        uids=uids,
        vocabulary=vocabulary,
        logprobs=logprobs,
    )
    verl: Any = system_module("verl")
    torch: Any = import_module("torch")
    return verl.DataProto.from_dict(
        tensors={name: torch.from_numpy(array.copy()) for name, array in made.tensors.items()},
        non_tensors=made.others,
        meta_info={"reward_extra_keys": [name for name in made.others if name.startswith("reward/")]},
    )


def data_protos(
    rollouts: Iterable[Rollout],
    pad_token_id: int,
    *,
    batch_rows: int = 1024,
    group_size: int | None = None,
    credit: Credit = WHOLE,
    on_refused: Callable[[RefusalReason], None] | None = None,
    **settings: Any,
) -> Iterator[Any]:
    """Batches of a stream of rollouts: whole groups, at least `batch_rows` rows in each but the last.

    Rollouts that must not be trained on are left out, passed to `on_refused` with the reason, and counted in the log.
    `settings` are those of `data_proto`.

    Raises:
        NotTrainable, ConfigError: as `data_proto`.
    """
    held: list[TrainingRow] = []
    need: Need = "logprobs" if settings.get("logprobs", True) else "tokens"
    for group in learnable(rollouts, need=need, group_size=group_size, credit=credit, on_refused=on_refused):
        held += group
        if len(held) >= batch_rows:
            yield data_proto(held, pad_token_id, **settings)
            held = []
    if held:
        yield data_proto(held, pad_token_id, **settings)


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row of a batch without its padding."""

    uid: str
    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_logprobs: list[float] | None
    token_rewards: list[float]
    """Rewards [response]; their sum is the row's reward."""

    @property
    def reward(self) -> float:
        """The row's reward."""
        return sum(self.token_rewards)


def rows_of_data_proto(data: Any) -> list[BatchRow]:
    """The rows of a `DataProto` that has the columns of `data_proto`."""
    batch, prompts = data.batch, data.batch["prompts"].shape[1]
    sampled = batch["rollout_log_probs"] if "rollout_log_probs" in set(batch.keys()) else None
    found: list[BatchRow] = []
    for place in range(len(data)):
        attention = batch["attention_mask"][place].bool()
        answer = attention[prompts:]
        found.append(
            BatchRow(
                uid=str(data.non_tensor_batch["uid"][place]),
                prompt_ids=batch["prompts"][place][attention[:prompts]].tolist(),
                response_ids=batch["responses"][place][answer].tolist(),
                response_mask=batch["response_mask"][place][answer].tolist(),
                response_logprobs=None if sampled is None else sampled[place][answer].tolist(),
                token_rewards=batch["rm_scores"][place][answer].tolist(),
            )
        )
    return found
