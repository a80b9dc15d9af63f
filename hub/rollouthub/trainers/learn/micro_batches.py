"""Micro-batches: rows of similar length, padded together, dealt out evenly to the ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub.trainers.learn.learn_row import LearnRow
from rollouthub.trainers.learn.learn_settings import LearnSettings
from rollouthub.trainers.learn.pytorch import torch


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that pass through the model together; column t of a tensor [row, token] is about token t + 1 of the ids."""

    places: Sequence[int]
    """The rows' places in the batch."""
    ids: Any
    """[row, token + 1], padded at the end, where nothing looks."""
    mask: Any
    sampled: Any
    shares: Any
    advantages: Any


def micro_batches(
    rows: Sequence[LearnRow],
    places: Sequence[int],
    shares: Sequence[float],
    settings: LearnSettings,
    *,
    rank: int = 0,
    ranks: int = 1,
    device: Any = "cpu",
) -> Iterator[MicroBatch]:
    """This rank's micro-batches of the rows at `places`; `shares` has each row's weight for one of its tokens.

    Every rank gets as many, since each pass through a sharded model takes all of them: one that has none left repeats
    its group's first with weights of 0.
    """
    groups: list[list[int]] = []
    for place in sorted(places, key=lambda place: len(rows[place].token_ids), reverse=True):
        longest = len(rows[groups[-1][0]].token_ids) if groups else 0
        if groups and longest * (len(groups[-1]) + 1) <= settings.micro_batch_tokens:
            groups[-1].append(place)
        else:
            groups.append([place])
    for begin in range(0, len(groups), ranks):
        round_ = groups[begin : begin + ranks]
        if rank < len(round_):
            yield _padded(rows, round_[rank], shares, device)
        else:
            yield _padded(rows, round_[0][:1], [0.0] * len(rows), device, is_filler=True)


def _padded(
    rows: Sequence[LearnRow], places: Sequence[int], shares: Sequence[float], device: Any, *, is_filler: bool = False
) -> MicroBatch:
    chosen = [rows[place] for place in places]
    width = max(len(row.token_ids) for row in chosen)

    def padded(columns: Sequence[Sequence[float]], kind: Any) -> Any:
        return torch.tensor([[*column, *[0] * (width - len(column))] for column in columns], dtype=kind, device=device)

    mask = padded([[0] * len(row.mask) if is_filler else row.mask for row in chosen], torch.float32)[:, 1:]
    sampled = padded([row.logprobs for row in chosen], torch.float32)[:, 1:]
    return MicroBatch(
        places=() if is_filler else tuple(places),
        ids=padded([row.token_ids for row in chosen], torch.long),
        mask=mask,
        sampled=torch.where(mask > 0, sampled, 0.0),
        shares=mask * torch.tensor([[shares[place]] for place in places], dtype=torch.float32, device=device),
        advantages=torch.tensor([[row.advantage] for row in chosen], dtype=torch.float32, device=device),
    )


def token_shares(rows: Sequence[LearnRow], settings: LearnSettings) -> list[float]:
    """The weight of one token of each row in the mean that `normalize` names, over all of `rows` [row]."""
    tokens, sequences = sum(row.learnt for row in rows), sum(row.weight for row in rows if row.learnt)
    if not tokens:
        return [0.0] * len(rows)
    if settings.normalize == "tokens":
        return [1 / tokens] * len(rows)
    if settings.normalize == "constant":
        assert settings.max_tokens is not None, "the settings check it"
        return [row.weight / sequences / settings.max_tokens for row in rows]
    return [row.weight / sequences / max(row.learnt, 1) for row in rows]
