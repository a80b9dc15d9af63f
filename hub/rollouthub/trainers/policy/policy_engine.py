"""`PolicyEngine`: samples from a `transformers` model in memory with its current weights, such as the model being
trained.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread

from rollouthub.errors import ModelError, describe
from rollouthub.generation import Sampling
from rollouthub.models.tokens.token_engine import Sampled

_MAX_TOKENS = 1024
_GATHERED_TIMES = 20


@dataclass(eq=False, slots=True)
class _QueuedPrompt:
    """A prompt waiting to be answered, and its answer so far."""

    prompt: Sequence[int]
    sampling: Sampling
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    finish_reason: str = ""
    version: int | None = None
    failure: Exception | None = None

    @property
    def is_over(self) -> bool:
        return bool(self.finish_reason) or self.failure is not None

    @property
    def temperature(self) -> float:
        return 1.0 if self.sampling.temperature is None else self.sampling.temperature


class PolicyEngine:
    """A `TokenEngine` around a causal language model; calls that arrive while a batch is sampled form the next batch.

    Made for small models and for tests of a training loop: there is no paging, and one batch runs at a time. The
    weights must not change during sampling, so the trainer has to wait for its rollouts before it updates them.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_ids: Collection[int],
        pad_id: int = 0,
        max_batch: int = 128,
        gather_seconds: float = 0.003,
        version: Callable[[], int] | None = None,
    ) -> None:
        """`end_ids` are the token ids that end an answer; before each batch it waits for as long as more calls arrive
        within `gather_seconds` (at most twenty times that); `version` returns the policy's version, with which every
        answer is stamped.
        """
        self._model, self._end_ids, self._pad_id = model, frozenset(end_ids), pad_id
        self._max_batch, self._gather_seconds, self._version = max_batch, gather_seconds, version
        self._waiting: deque[_QueuedPrompt] = deque()
        self._turn = anyio.Lock()
        self.batches = 0
        """How many batches were sampled so far."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ModelError: the request has a sampling setting that this engine does not support, or the model failed.
        """
        _check(sampling, media)
        call = _QueuedPrompt(prompt_ids, sampling)
        self._waiting.append(call)
        try:
            async with self._turn:  # who comes first samples for all who wait
                while not call.is_over:
                    await self._gather()
                    await self._sample_batch()
        finally:
            if call in self._waiting:
                self._waiting.remove(call)
        if call.failure is not None:
            raise call.failure
        return Sampled(call.token_ids, call.logprobs, call.finish_reason, call.version)

    async def while_idle(self, change: Callable[[str], None], given: str) -> None:
        """Call a function that changes the weights, in a thread, while nothing is sampled."""
        async with self._turn:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(change, given)

    async def _gather(self) -> None:
        for _ in range(_GATHERED_TIMES):
            before = len(self._waiting)
            await anyio.sleep(self._gather_seconds)
            if len(self._waiting) == before or before >= self._max_batch:
                return

    async def _sample_batch(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
        version = None if self._version is None else self._version()
        self.batches += 1
        with anyio.CancelScope(shield=True):  # the others' answers do not go with the one who happens to sample
            try:
                await anyio.to_thread.run_sync(self._run, batch)
            except Exception as error:  # torch and the model raise any exception
                for call in batch:
                    call.failure = ModelError(f"the policy failed: {describe(error)}", retryable=False)
        for call in batch:
            call.version = version

    def _run(self, batch: Sequence[_QueuedPrompt]) -> None:
        """Sample a batch token by token, until every call in it has ended."""
        torch: Any = import_module("torch")  # heavy, and there wherever a policy is in this process
        model = self._model
        device = model.device
        width = max(len(call.prompt) for call in batch)
        padded = [[self._pad_id] * (width - len(call.prompt)) + list(call.prompt) for call in batch]
        ids = torch.tensor(padded, device=device)
        mask = torch.tensor([[0] * (width - len(call.prompt)) + [1] * len(call.prompt) for call in batch]).to(device)
        places = (mask.cumsum(1) - 1).clamp(min=0)
        draw = _Draw(torch, batch, device)
        was_training, cache = model.training, None
        model.eval()
        try:
            with torch.no_grad():
                while True:
                    output = model(
                        input_ids=ids,
                        attention_mask=mask,
                        position_ids=places,
                        past_key_values=cache,
                        use_cache=True,
                        logits_to_keep=1,
                    )
                    cache = output.past_key_values
                    tokens, logprobs = draw(output.logits[:, -1].float())
                    self._take(batch, tokens.tolist(), logprobs.tolist())
                    going_on = [row for row, call in enumerate(batch) if not call.is_over]
                    if not going_on:
                        return
                    ids, places = tokens[:, None], places[:, -1:] + 1
                    mask = torch.cat([mask, mask.new_ones(len(batch), 1)], dim=1)
                    if len(going_on) <= len(batch) / 2 and hasattr(cache, "batch_select_indices"):
                        rows = torch.tensor(going_on, device=device)
                        cache.batch_select_indices(rows)
                        ids, places, mask = ids[rows], places[rows], mask[rows]
                        batch = [batch[row] for row in going_on]
                        draw.keep(going_on)
        finally:
            model.train(was_training)

    def _take(self, batch: Sequence[_QueuedPrompt], tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        for call, token, logprob in zip(batch, tokens, logprobs, strict=True):
            if call.is_over:
                continue
            call.token_ids.append(token)
            call.logprobs.append(logprob)
            if token in self._end_ids:
                call.finish_reason = "stop"
            elif len(call.token_ids) >= (call.sampling.max_tokens or _MAX_TOKENS):
                call.finish_reason = "length"


class _Draw:
    """Draws a token for each row of logits [row, vocabulary], with its log-probability under the distribution it was
    drawn from.
    """

    def __init__(self, torch: Any, batch: Sequence[_QueuedPrompt], device: Any) -> None:
        self._torch = torch
        temperatures = [call.temperature for call in batch]
        self._is_greedy = torch.tensor([value == 0 for value in temperatures], device=device)
        self._temperatures = torch.tensor([value or 1.0 for value in temperatures], device=device)[:, None]
        shares = [call.sampling.top_p or 1.0 for call in batch]
        self._shares = torch.tensor(shares, device=device)[:, None] if min(shares) < 1 else None
        self._generators = {
            place: torch.Generator(device).manual_seed(_seed(call.sampling.seed, len(call.prompt)))
            for place, call in enumerate(batch)
            if call.sampling.seed is not None
        }

    def keep(self, rows: Sequence[int]) -> None:
        """Draw for these rows alone from now on."""
        chosen = self._torch.tensor(rows, device=self._temperatures.device)
        self._is_greedy, self._temperatures = self._is_greedy[chosen], self._temperatures[chosen]
        self._shares = None if self._shares is None else self._shares[chosen]
        known = self._generators
        self._generators = {place: known[row] for place, row in enumerate(rows) if row in known}

    def __call__(self, logits: Any) -> tuple[Any, Any]:
        torch = self._torch
        logprobs = torch.log_softmax(logits / self._temperatures, dim=-1)
        if self._shares is not None:
            ordered, order = logprobs.sort(dim=-1, descending=True)
            probabilities = ordered.exp()
            is_cut = probabilities.cumsum(-1) - probabilities >= self._shares
            logprobs = logprobs.masked_fill(is_cut.scatter(-1, order, is_cut), float("-inf"))
            logprobs = torch.log_softmax(logprobs, dim=-1)
        exact = torch.float32 if logprobs.device.type == "mps" else torch.float64  # which Apple's GPUs lack
        ends = logprobs.to(exact).exp().cumsum(-1)
        points = torch.rand(len(ends), 1, dtype=ends.dtype, device=ends.device)
        for place, generator in self._generators.items():
            points[place].uniform_(generator=generator)
        # The first whose end reaches a point above 0: never one without probability. Where all is NaN, the last.
        drawn = torch.searchsorted(ends, (1 - points) * ends[:, -1:])[:, 0].clamp(max=logprobs.shape[-1] - 1)
        tokens = torch.where(self._is_greedy, logprobs.argmax(-1), drawn)
        return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _seed(seed: int, prompt_tokens: int) -> int:
    """A seed for each turn: a conversation sends the same seed with every turn, and the turns must not repeat their
    draws.
    """
    return (seed * 1_000_003 + prompt_tokens) % 2**63


def _check(sampling: Sampling, media: Mapping[str, bytes]) -> None:
    """Refuse sampling settings that this engine would ignore.

    Raises:
        ModelError: names the unsupported settings.
    """
    unknown = [*sampling.extra, *(["stop"] if sampling.stop else []), *(["media"] if media else [])]
    if unknown:
        raise ModelError(
            f"the policy knows temperature, top_p, max_tokens and seed; it was asked for {', '.join(unknown)}",
            status=400,
            retryable=False,
        )
