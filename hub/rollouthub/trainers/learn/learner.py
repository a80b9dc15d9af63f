"""`Learner`: policy-gradient steps on a causal language model."""

import math
import random
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export.training_row import TrainingRow
from rollouthub.trainers.learn.checkpoints import read_state, write_checkpoint, write_weights
from rollouthub.trainers.learn.learn_row import LearnRow, learn_row
from rollouthub.trainers.learn.learn_settings import LearnSettings
from rollouthub.trainers.learn.micro_batches import MicroBatch, micro_batches, token_shares
from rollouthub.trainers.learn.objective import TokenColumns, loss_of
from rollouthub.trainers.learn.pytorch import torch
from rollouthub.trainers.learn.ranks import Ranks
from rollouthub.trainers.learn.token_logprobs import TokenLogprobs

_MEANS = ("ratio", "clipped_low", "clipped_high", "importance", "mismatch", "kl", "entropy")
"""The figures that are means over the tokens learnt from."""


class Learner:
    """Moves a model's weights. Its `version` counts the batches it has learnt from.

        model, tokenizer = open_policy("Qwen/Qwen3-0.6B")
        learner = Learner(model, LearnSettings.variant("dapo", learning_rate=1e-6), tokenizer=tokenizer)
        figures = learner.learn([(row, advantage), …])

    With several ranks, all make it with the same weights; then the others call `follow`, and the leader the rest.
    """

    def __init__(
        self,
        model: Any,
        settings: LearnSettings | None = None,
        *,
        tokenizer: Any = None,
        ranks: Ranks | None = None,
        reference: Any = None,
    ) -> None:
        """`reference` is what the KL divergence is measured from, by default the model as it is now; of a LoRA model,
        the model without its adapter. The tokenizer is written beside the weights.

        Raises:
            ConfigError: the model is of a kind that is not supported, or a sharded one lacks a reference for its KL
                divergence.
        """
        self.model, self.tokenizer, self.ranks = model, tokenizer, ranks or Ranks()
        self.settings = settings or LearnSettings()
        self.version = self.updates = 0
        self._reference = reference
        self._set_out()

    def _set_out(self) -> None:
        settings = self.settings
        if settings.kl and self._reference is None and self.ranks.count > 1:
            raise ConfigError("a KL divergence on several ranks needs a reference, which every rank opens: give one")
        learnt = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            learnt, lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
        )
        self._logprobs = TokenLogprobs(self.model, settings.temperature)
        self._reference_logprobs: TokenLogprobs | None = None
        if settings.kl and (self._reference is not None or not self.is_lora):
            if self._reference is None:
                self._reference = self._frozen_copy()
            self._reference_logprobs = TokenLogprobs(self._reference, settings.temperature)

    def _frozen_copy(self) -> Any:
        self._logprobs.close()
        try:
            return deepcopy(self.model).requires_grad_(False).eval()
        finally:
            self._logprobs = TokenLogprobs(self.model, self.settings.temperature)

    @property
    def is_lora(self) -> bool:
        """Whether an adapter is learnt, and not the model's own weights."""
        return any("lora_" in name for name, _ in self.model.named_parameters())

    def follow(self) -> None:
        """As a rank that is not the leader: make the leader's calls until it ends."""
        self.ranks.follow(lambda method: getattr(self, method))

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rows: Sequence[tuple[TrainingRow, float]]) -> Mapping[str, float]:
        """Learn from training rows with their advantages; returns the figures of `learn_from`."""
        return self.learn_from([learn_row(row, advantage) for row, advantage in rows])

    def learn_from(self, rows: Sequence[LearnRow]) -> Mapping[str, float]:
        """Learn from a batch, in optimizer steps of `update_rows`; counts the version up.

        Returns figures: `loss` and `grad_norm` (means of the optimizer steps), `learning_rate`, counts (`rows`,
        `tokens`, `updates`, `skipped` updates whose gradient was not finite) and `seconds`. Where anything was learnt
        from, there are means over its tokens, too: `ratio`, the shares `clipped_low` and `clipped_high`, `importance`,
        `mismatch` (the KL divergence between engine and learner), `kl`, `entropy`.
        """
        self.ranks.lead("learn_from", rows)
        figures = self._learn(rows, self._compared(rows))
        self.version += 1
        return figures

    def imitate(self, rows: Sequence[LearnRow]) -> Mapping[str, float]:
        """Learn to write what the rows have (supervised fine-tuning), each weighted by its advantage; else as
        `learn_from`, but for the version. The rows' log-probabilities do not count.
        """
        self.ranks.lead("imitate", rows)
        return self._learn(rows, None)

    def _learn(self, rows: Sequence[LearnRow], compared: "_Compared | None") -> Mapping[str, float]:
        began, sums, norms = time.perf_counter(), Counter[str](), list[float]()
        skipped = 0
        self.model.train()
        updates = [chosen for epoch in range(self.settings.epochs) for chosen in self._updates(len(rows), epoch)]
        for chosen in updates:
            found, norm = self._update(rows, chosen, compared)
            sums.update(found)
            skipped += not math.isfinite(norm)
            norms.append(norm)
        finite = [norm for norm in norms if math.isfinite(norm)]
        tokens = max(sums["tokens"], 1)
        return {
            "loss": sums["loss"] / max(len(updates), 1),
            "grad_norm": sum(finite) / max(len(finite), 1),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            **{name: sums[name] / tokens for name in _MEANS if name in sums},
            "rows": len(rows),
            "tokens": sums["tokens"],
            "updates": len(updates),
            "skipped": skipped,
            "seconds": time.perf_counter() - began,
        }

    def _updates(self, count: int, epoch: int) -> list[list[int]]:
        """The places of the rows of each optimizer step, in an order of the seed, version and epoch."""
        order, size = list(range(count)), self.settings.update_rows or max(count, 1)
        random.Random(f"{self.settings.seed}/{self.version}/{self.updates}/{epoch}").shuffle(order)
        return [order[begin : begin + size] for begin in range(0, count, size)]

    def _compared(self, rows: Sequence[LearnRow]) -> "_Compared":
        settings, nothing = self.settings, dict[int, list[float]]()
        is_one = settings.epochs == 1 and len(rows) <= (settings.update_rows or len(rows))
        proximal = nothing if is_one or settings.proximal == "sampler" else self._found(rows, self._logprobs)
        if not settings.kl:
            return _Compared(proximal, nothing)
        with self.model.disable_adapter() if self.is_lora else nullcontext():
            return _Compared(proximal, self._found(rows, self._reference_logprobs or self._logprobs))

    def logprobs(self, rows: Sequence[LearnRow]) -> list[list[float]]:
        """The learner's log-probabilities of each row's tokens from the second on [row][token]; 0 where not masked.

        Their difference from the engine's is the drift between the two.
        """
        self.ranks.lead("logprobs", rows)
        found = self._found(rows, self._logprobs)
        return [found[place] for place in range(len(rows))]

    def _found(self, rows: Sequence[LearnRow], asked: TokenLogprobs) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            for batch in self._batches(rows, range(len(rows)), [1.0] * len(rows)):
                logprobs, _ = asked(batch.ids, batch.mask)
                found.update(zip(batch.places, logprobs.tolist(), strict=False))
        self.model.train(was_training)
        whole = self.ranks.merged(found)
        return {place: values[: len(rows[place].token_ids) - 1] for place, values in whole.items()}

    def _batches(
        self, rows: Sequence[LearnRow], places: Sequence[int], shares: Sequence[float]
    ) -> Iterator[MicroBatch]:
        ranks = self.ranks
        return micro_batches(
            rows, places, shares, self.settings, rank=ranks.rank, ranks=ranks.count, device=ranks.device
        )

    def _update(
        self, rows: Sequence[LearnRow], chosen: Sequence[int], compared: "_Compared | None"
    ) -> tuple[Mapping[str, float], float]:
        """One optimizer step; returns the sums of its loss, and the gradient's norm before it was clipped."""
        settings = self.settings
        shares = [0.0] * len(rows)
        for place, share in zip(chosen, token_shares([rows[place] for place in chosen], settings), strict=True):
            shares[place] = share
        counts = compared is not None and (settings.kl or settings.entropy)
        # A row without an advantage has no gradient otherwise.
        moving = [place for place in chosen if rows[place].learnt and (counts or rows[place].advantage)]
        sums: Counter[str] = Counter()
        for batch in self._batches(rows, moving, shares):
            loss, found = self._loss(batch, compared)
            (loss * self.ranks.count).backward()  # gradients are averaged over ranks, and shares are of all of them
            sums.update({name: float(value) for name, value in found.items()})
        names = sorted(sums)
        total = dict(zip(names, self.ranks.total([sums[name] for name in names]), strict=True))
        return total, self._move() if moving else 0.0

    def _loss(self, batch: MicroBatch, compared: "_Compared | None") -> tuple[Any, dict[str, Any]]:
        settings = self.settings
        wants_entropy = compared is not None and settings.entropy > 0
        logprobs, entropies = self._logprobs(batch.ids, batch.mask, entropy=wants_entropy)
        if compared is None:
            loss = -(logprobs * batch.shares * batch.advantages).sum()
            return loss, {"loss": loss.detach(), "tokens": batch.mask.sum()}
        proximal = batch.sampled if settings.proximal == "sampler" else logprobs.detach()
        if compared.proximal:
            proximal = _column(batch, compared.proximal)
        columns = TokenColumns(
            logprobs=logprobs,
            proximal=proximal,
            sampled=batch.sampled,
            mask=batch.mask,
            shares=batch.shares,
            advantages=batch.advantages,
            reference=_column(batch, compared.reference) if settings.kl else None,
            entropies=entropies,
        )
        return loss_of(columns, settings)

    def _move(self) -> float:
        settings = self.settings
        learnt = self.optimizer.param_groups[0]["params"]
        norm = torch.nn.utils.clip_grad_norm_(learnt, settings.max_grad_norm)
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)  # torch's own for sharded gradients
        self.optimizer.param_groups[0]["lr"] = settings.learning_rate * self._rate()
        if math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        return norm

    def _rate(self) -> float:
        """The share of the learning rate at this optimizer step: it rises, stays or falls, each linearly."""
        settings, past = self.settings, self.updates - self.settings.warmup_steps
        if past < 0:
            begin = settings.warmup_from
            return begin + (1 - begin) * self.updates / settings.warmup_steps
        if not settings.decay_steps:
            return 1.0
        return 1 - (1 - settings.decay_to) * min(past / settings.decay_steps, 1)

    # --- files ------------------------------------------------------------------------------------------------------

    def save_weights(self, folder: Path | str) -> None:
        """Write the policy in Hugging Face's format, a LoRA adapter merged into it, for engines to load."""
        self.ranks.lead("save_weights", folder)
        write_weights(Path(folder), self.model, self.tokenizer, self.ranks)

    def save(self, folder: Path | str) -> None:
        """Write a checkpoint: the weights as `save_weights` does, and what going on needs (optimizer, counts, random
        state). It is whole or not there.
        """
        self.ranks.lead("save", folder)
        counts = {"version": self.version, "updates": self.updates}
        write_checkpoint(Path(folder), self.model, self.optimizer, self.tokenizer, self.ranks, counts)

    def restore(self, folder: Path | str) -> None:
        """Go on from a checkpoint: weights, optimizer, counts and random state.

        Raises:
            UsageError: there is no checkpoint of a learner of this kind.
        """
        self.ranks.lead("restore", folder)
        counts = read_state(Path(folder), self.model, self.optimizer)
        self.version, self.updates = counts["version"], counts["updates"]

    def begin_stage(self, settings: LearnSettings, reference: Any = None, keeps_moments: bool = False) -> None:
        """Go on under other settings, with a new optimizer, or with the moments of the present one, which spare a small
        model the rough first steps of a new one. The KL divergence is measured from `reference`, by default from the
        weights as they are now; of a LoRA model, from the model without its adapter.

        Raises:
            ConfigError: a KL divergence is asked of several ranks, which cannot be sent a reference.
        """
        if settings.kl and self.ranks.count > 1:
            raise ConfigError(
                "begin_stage has no KL divergence on several ranks: make a new Learner with its reference"
            )
        self.ranks.lead("begin_stage", settings, None, keeps_moments)
        optimizer = self.optimizer
        self._logprobs.close()
        self.settings, self._reference, self.updates = settings, reference, 0
        self._set_out()
        if keeps_moments:
            optimizer.param_groups[0].update(betas=settings.betas, weight_decay=settings.weight_decay)
            self.optimizer = optimizer

    @contextmanager
    def ended(self) -> Generator["Learner"]:
        """Release the other ranks when the block is left. `torchrun` ends them if it fails: they may wait in the middle
        of a step, where no call reaches them.
        """
        yield self
        self.ranks.end()


@dataclass(frozen=True, slots=True)
class _Compared:
    """Log-probabilities that the present ones are compared with, by the rows' places; empty where none are needed."""

    proximal: Mapping[int, list[float]]
    reference: Mapping[int, list[float]]


def _column(batch: MicroBatch, found: Mapping[int, list[float]]) -> Any:
    """Values by place as a tensor like the micro-batch's [row, token]; its own values where it is a filler."""
    if not batch.places:
        return batch.sampled
    width = batch.mask.shape[1]
    padded = [[*found[place], *[0.0] * (width - len(found[place]))] for place in batch.places]
    return torch.tensor(padded, dtype=torch.float32, device=batch.mask.device)
