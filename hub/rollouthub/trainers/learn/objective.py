"""The objective: what a token contributes to the loss. Tensors are [row, token], in 32-bit floats."""

from dataclasses import dataclass
from typing import Any

from rollouthub.trainers.learn.learn_settings import KlForm, LearnSettings
from rollouthub.trainers.learn.pytorch import torch

_MOST_LOG = 20.0
"""Bound of a logarithm of a ratio before it is exponentiated: e^20 is far outside every clip, and finite."""


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """What the loss of a micro-batch is computed from [row, token]."""

    logprobs: Any
    """By the learner's present weights, with gradients."""
    proximal: Any
    """What the ratio compares with."""
    sampled: Any
    """The engine's; the weights it had may be older."""
    mask: Any
    """1.0 on tokens to learn from."""
    shares: Any
    """Weight of each token in the loss of the whole optimizer step, over all ranks; 0 elsewhere."""
    advantages: Any
    """Of each row [row, 1]."""
    reference: Any = None
    """The reference policy's; None where the KL divergence does not count."""
    entropies: Any = None
    """Of the learner's distribution; None where the entropy does not count."""


def loss_of(columns: TokenColumns, settings: LearnSettings) -> tuple[Any, dict[str, Any]]:
    """The micro-batch's part of the loss, and sums over its tokens, by name, of what the figures are means of."""
    mask = columns.mask
    ratio = probability_ratio(columns.logprobs, columns.proximal, mask, settings.ratio)
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    gains = torch.minimum(ratio * columns.advantages, clipped * columns.advantages)
    importance = importance_weights(columns.proximal, columns.sampled, settings)
    losses = -gains * importance
    own = columns.logprobs if settings.proximal == "sampler" else columns.proximal
    sums = {
        "ratio": (ratio * mask).sum(),
        "clipped_low": ((ratio < 1 - settings.clip_low) & (columns.advantages < 0)).mul(mask).sum(),
        "clipped_high": ((ratio > 1 + settings.clip_high) & (columns.advantages > 0)).mul(mask).sum(),
        "importance": (importance * mask).sum(),
        "mismatch": (kl_estimate(columns.sampled, own.detach(), "k3") * mask).sum(),
        "tokens": mask.sum(),
    }
    if columns.reference is not None:
        divergence = kl_estimate(columns.logprobs, columns.reference, settings.kl_form)
        losses = losses + settings.kl * divergence
        sums["kl"] = (divergence * mask).sum()
    if columns.entropies is not None:
        losses = losses - settings.entropy * columns.entropies
        sums["entropy"] = (columns.entropies * mask).sum()
    loss = (losses * columns.shares).sum()
    return loss, {"loss": loss.detach(), **{name: value.detach() for name, value in sums.items()}}


def probability_ratio(logprobs: Any, proximal: Any, mask: Any, kind: str) -> Any:
    """The ratio of probabilities, of each token or of the sequence.

    For a sequence it is the geometric mean over its tokens, the same at each; its gradient flows through each token's
    own log-probability (GSPO-token, arXiv:2507.18071, 4.3).
    """
    logs = (logprobs - proximal).clamp(-_MOST_LOG, _MOST_LOG)
    if kind == "token":
        return logs.exp()
    mean = (logs * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    return mean.exp().detach() * (logprobs - logprobs.detach()).exp()


def importance_weights(proximal: Any, sampled: Any, settings: LearnSettings) -> Any:
    """Truncated importance sampling of the engine's distribution: the learner's probability over the engine's, at most
    `importance_cap`; constants for the gradient.

    It corrects what differs between engine and learner at equal weights, and weights that are older by the bound on
    staleness.
    """
    if settings.importance_cap is None or settings.proximal == "sampler":
        return torch.ones_like(sampled)
    logs = (proximal.detach() - sampled).clamp(-_MOST_LOG, _MOST_LOG)
    return logs.exp().clamp(max=settings.importance_cap)


def kl_estimate(logprobs: Any, reference: Any, form: KlForm) -> Any:
    """Estimate of KL(policy, reference) at each sampled token. `k3` is never negative."""
    logs = (reference - logprobs).clamp(-_MOST_LOG, _MOST_LOG)
    if form == "k1":
        return -logs
    if form == "k2":
        return logs.square() / 2
    return logs.exp() - 1 - logs
