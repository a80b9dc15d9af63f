"""`LearnSettings`: the objective and the optimizer of the learner, and the settings of the variants the field uses."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from rollouthub.authoring.rewards.advantages import GroupMethod
from rollouthub.errors import UnknownNameError
from rollouthub.settings import check_settings
from rollouthub.values import Frozen

KlForm = Literal["k1", "k2", "k3"]
"""Estimators of the KL divergence from the reference by one sample (Schulman, "Approximating KL divergence", 2020)."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "grpo": {},
    "dr_grpo": {"advantages": "mean", "normalize": "constant"},
    "dapo": {"clip_high": 0.28, "normalize": "tokens"},
    "rloo": {"advantages": "leave_one_out", "normalize": "tokens"},
    "gspo": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
}
"""What each variant sets differently from the defaults: GRPO (arXiv:2402.03300), Dr. GRPO (2503.20783), DAPO
(2503.14476; its dynamic sampling is the stream's `drop_constant`, its overlong penalty `overlong_tokens`), RLOO
(2402.14740), GSPO (2507.18071).
"""


class LearnSettings(Frozen):
    """The settings of a learner. Counts are in tokens or rows; a row is one trained sequence."""

    advantages: GroupMethod = Field(default="mean_std", description="How rewards are compared within a group.")
    ratio: Literal["token", "sequence"] = Field(
        default="token",
        description="The probability ratio that is clipped: of each token, or of the whole sequence (GSPO).",
    )
    clip_low: float = Field(default=0.2, gt=0, description="The ratio counts at least 1 minus this.")
    clip_high: float = Field(default=0.2, gt=0, description="The ratio counts at most 1 plus this.")
    normalize: Literal["sequences", "tokens", "constant"] = Field(
        default="sequences",
        description="What the loss is a mean of: sequences' means (GRPO), all tokens (DAPO), or sums of tokens over "
        "`max_tokens` for each sequence (Dr. GRPO). The rows of a rollout that forked count as one sequence.",
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Most tokens that a rollout samples; `constant` and `overlong_tokens` need it."
    )
    kl: float = Field(default=0.0, ge=0, description="Weight of the KL divergence from the reference policy.")
    kl_form: KlForm = Field(default="k3", description="How the KL divergence is estimated.")
    entropy: float = Field(default=0.0, ge=0, description="Weight of the entropy bonus.")
    proximal: Literal["recomputed", "sampler"] = Field(
        default="recomputed",
        description="The log-probabilities that the ratio compares with: the learner's own at the start of the step "
        "(decoupled PPO), or those that the engine sampled with.",
    )
    importance_cap: float | None = Field(
        default=2.0,
        gt=0,
        description="Most weight of a token by truncated importance sampling, the learner's probability over the "
        "engine's; None is no correction.",
    )
    overlong_tokens: int = Field(
        default=0,
        ge=0,
        description="DAPO's overlong penalty: a reward falls by up to 1 over the last so many of `max_tokens`.",
    )
    skip_truncated: bool = Field(default=False, description="Leave rollouts that a limit ended out of the loss.")
    temperature: float = Field(default=1.0, gt=0, description="The temperature that the engine sampled at.")
    learning_rate: float = Field(default=1e-6, gt=0, description="AdamW's step size.")
    warmup_steps: int = Field(
        default=0, ge=0, description="Optimizer steps over which the learning rate rises to its value."
    )
    warmup_from: float = Field(default=0.1, ge=0, le=1, description="Share of the learning rate at the first step.")
    decay_steps: int = Field(
        default=0, ge=0, description="Optimizer steps after the warm-up over which the learning rate falls; 0 keeps it."
    )
    decay_to: float = Field(default=0.1, ge=0, le=1, description="Share of the learning rate after those steps.")
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW's weight decay.")
    betas: tuple[float, float] = Field(default=(0.9, 0.999), description="AdamW's decay of its two moments.")
    max_grad_norm: float = Field(default=1.0, gt=0, description="The norm to which a gradient is clipped.")
    update_rows: int | None = Field(
        default=None, ge=1, description="Rows of an optimizer step; None takes a whole batch at once."
    )
    epochs: int = Field(default=1, ge=1, description="Times a batch is learnt from.")
    micro_batch_tokens: int = Field(
        default=16_384, ge=1, description="Padded tokens that pass through the model at a time."
    )
    seed: int = Field(default=0, description="Of the order in which rows are learnt from.")

    @model_validator(mode="after")
    def _has_its_limits(self) -> "LearnSettings":
        if self.max_tokens is None and (self.normalize == "constant" or self.overlong_tokens):
            name = "normalize = 'constant'" if self.normalize == "constant" else "overlong_tokens"
            raise ValueError(f"{name} needs max_tokens, the most tokens that a row may sample")
        if self.max_tokens is not None and self.overlong_tokens > self.max_tokens:
            raise ValueError(f"overlong_tokens = {self.overlong_tokens} is more than max_tokens = {self.max_tokens}")
        return self

    @classmethod
    def variant(cls, name: str, **changes: Any) -> "LearnSettings":
        """The settings of a variant of `VARIANTS`, with changes.

        Raises:
            UnknownNameError: there is no such variant.
            ConfigError: a setting is unknown or invalid.
        """
        if name not in VARIANTS:
            raise UnknownNameError("variant", name, VARIANTS)
        return check_settings(cls, {**VARIANTS[name], **changes}, f"LearnSettings.variant({name!r})")
