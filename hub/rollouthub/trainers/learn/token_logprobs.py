"""Log-probabilities of given tokens from a causal language model, without keeping its logits."""

from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.trainers.learn.pytorch import checkpoint, torch

CHUNK_TOKENS = 2_048
"""Tokens whose logits exist at a time: with a vocabulary of 152,000, 1.2 GB in 32 bits."""


class TokenLogprobs:
    """Makes a model's output layer answer with log-probabilities while it is asked through this object.

    The layer sees the hidden states of the wanted positions alone, chunk by chunk, and computes its logits again in the
    backward pass, so that neither prompts nor a large vocabulary cost memory. Other uses of the model see its logits.
    """

    def __init__(self, model: Any, temperature: float = 1.0) -> None:
        """`temperature` divides the logits, as the engine's sampling does.

        Raises:
            ConfigError: the model changes its logits after the output layer.
        """
        self._model, self._temperature = model, temperature
        self._head = model.get_output_embeddings()
        self._logits_of, self._head.forward = self._head.forward, self._answer
        self._wanted: tuple[Any, Any, bool] | None = None
        self._check()

    def _check(self) -> None:
        seen: list[Any] = []

        def see(layer: Any, given: Any, logits: Any) -> None:
            seen.append(logits)

        hook = self._head.register_forward_hook(see)
        try:
            with torch.no_grad():
                ids = torch.zeros(1, 2, dtype=torch.long, device=next(self._model.parameters()).device)
                logits = self._model(input_ids=ids, use_cache=False).logits
        finally:
            hook.remove()
        if not torch.equal(logits, seen[0]):
            self.close()
            raise ConfigError(
                f"{self._model.config.model_type} scales or caps its logits after its output layer: not supported"
            )

    def close(self) -> None:
        """Give the output layer back as it was."""
        self._head.forward = self._logits_of

    def __call__(self, ids: Any, mask: Any, *, entropy: bool = False) -> tuple[Any, Any]:
        """Log-probabilities, and entropies if wanted, of `ids[:, 1:]` [row, token] where `mask` is positive; 0 else."""
        self._wanted = ids[:, 1:], mask > 0, entropy
        try:
            # Without an attention mask: padding comes last, where a causal model does not look.
            found = self._model(input_ids=ids[:, :-1], use_cache=False).logits
        finally:
            self._wanted = None
        return found[..., 0], found[..., 1] if entropy else None

    def _answer(self, hidden: Any) -> Any:
        if self._wanted is None:
            return self._logits_of(hidden)
        targets, places, entropy = self._wanted
        chosen, wanted = hidden[places], targets[places]
        parts = [
            self._chunk(states, tokens, entropy)
            for states, tokens in zip(chosen.split(CHUNK_TOKENS), wanted.split(CHUNK_TOKENS), strict=True)
        ]
        found = hidden.new_zeros(*targets.shape, 2, dtype=torch.float32)
        # A row of zeros keeps the layer in the graph where nothing is wanted: sharded gradients need every rank.
        return found.masked_scatter(places[..., None], torch.cat(parts)) + 0 * self._logits_of(hidden[:1, :1]).sum()

    def _chunk(self, states: Any, tokens: Any, entropy: bool) -> Any:
        if len(tokens) < CHUNK_TOKENS or not states.requires_grad:
            return self._two(states, tokens, entropy)
        return checkpoint(self._two, states, tokens, entropy, use_reentrant=False)

    def _two(self, states: Any, tokens: Any, entropy: bool) -> Any:
        """Log-probability and entropy [token, 2] of each of `tokens`."""
        logits = self._logits_of(states).float() / self._temperature
        total = logits.logsumexp(-1)
        logprobs = logits.gather(-1, tokens[:, None])[:, 0] - total
        spread = total - (logits.softmax(-1) * logits).sum(-1) if entropy else torch.zeros_like(logprobs)
        return torch.stack((logprobs, spread), -1)
