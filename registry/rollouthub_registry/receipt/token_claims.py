"""Checks of what a model's server reported: numbers of tokens, log-probabilities, and prompts that go on."""

import math
from collections.abc import Iterator
from statistics import median

from rollouthub.messages import media_of
from rollouthub.rollout import BROKEN_OFF, Rollout, Turn
from rollouthub.store import AttemptSummary
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import asks_model, attempt_name, turn_model

UNIFORM_LOGPROB = -12.0
"""Less than the log-probability of any of 150,000 tokens drawn by chance: a model's own tokens are likelier in the
middle.
"""
_FEW, _MANY = 20, 50
"""Tokens that a median needs to say something; and that are never all equally likely."""
_ABOVE_ZERO = 1e-3
"""How far above 0 rounding may put a log-probability."""
_STOP_TOKENS = 1
"""Tokens by which usage may differ from the ids: some servers leave the end of a message out of one of the two."""


class TokenCheck:
    """Looks at the token arrays of every turn that a model answered."""

    def __init__(self) -> None:
        self._counts, self._logprobs, self._ids = Problems(), Problems(), Problems()
        self._rollouts = self._with_ids = self._answers = self._answers_with_ids = self._with_logprobs = 0
        self._tokens = self._extending = self._forked = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        answered = [turn for turn in rollout.turns if asks_model(turn) and turn_model(rollout, turn) is not None]
        self._rollouts += bool(answered)
        self._with_ids += any(turn.output_token_ids is not None for turn in answered)
        by_index = {turn.index: turn for turn in rollout.turns}
        for turn in answered:
            place = f"{attempt_name(rollout)}, turn {turn.index}"
            self._answers += 1
            self._look_at_counts(turn, place)
            self._look_at_logprobs(turn, place)
            parent = None if turn.parent_turn is None else by_index.get(turn.parent_turn)
            if parent is not None:
                self._look_at_prompt(turn, parent)

    def _look_at_counts(self, turn: Turn, place: str) -> None:
        ids, usage = turn.output_token_ids, turn.usage
        if ids is None:
            return
        self._answers_with_ids += 1
        self._tokens += len(ids)
        if ids.has_negative or (turn.prompt_token_ids is not None and turn.prompt_token_ids.has_negative):
            self._ids.add(f"{place}: a token id is negative")
        if turn.finish_reason == BROKEN_OFF or not (usage.output_tokens or usage.prompt_tokens):
            return  # an estimate, or nothing was reported
        if abs(usage.output_tokens - len(ids)) > _STOP_TOKENS:
            self._counts.add(f"{place}: {usage.output_tokens:,} output tokens reported, {len(ids):,} ids")
        prompt = turn.prompt_token_ids
        has_media = any(True for _ in media_of(turn.messages))
        if prompt is not None and not has_media and abs(usage.prompt_tokens - len(prompt)) > _STOP_TOKENS:
            self._counts.add(f"{place}: {usage.prompt_tokens:,} prompt tokens reported, {len(prompt):,} ids")

    def _look_at_logprobs(self, turn: Turn, place: str) -> None:
        if turn.output_logprobs is None:
            return
        self._with_logprobs += 1
        values, ids = turn.output_logprobs.tolist(), turn.output_token_ids
        if ids is not None and len(ids) != len(values):
            self._logprobs.add(f"{place}: {len(values):,} log-probabilities of {len(ids):,} tokens")
        elif not all(math.isfinite(value) for value in values):
            self._logprobs.add(f"{place}: a log-probability is no finite number")
        elif any(value > _ABOVE_ZERO for value in values):
            self._logprobs.add(f"{place}: a log-probability is {max(values):g}, which is a probability above 1")
        elif len(values) >= _FEW and median(values) < UNIFORM_LOGPROB:
            self._logprobs.add(f"{place}: half of its tokens are less likely than by chance ({median(values):.1f})")
        elif len(values) >= _MANY and values[0] != 0 and len(set(values)) == 1:
            self._logprobs.add(f"{place}: all of its {len(values):,} tokens are equally likely ({values[0]:g})")

    def _look_at_prompt(self, turn: Turn, parent: Turn) -> None:
        prompt, asked, said = turn.prompt_token_ids, parent.prompt_token_ids, parent.output_token_ids
        if prompt is None or asked is None or said is None:
            return
        extends = prompt.raw.startswith(asked.raw) and prompt.raw.startswith(said.raw, len(asked.raw))
        self._extending += extends
        self._forked += not extends

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if not self._answers:
            return
        if self._ids or self._counts:
            problems = self._ids if self._ids else self._counts
            said = f"{counted(problems.count, 'count')} of tokens contradict the ids"
            yield problems.refutes("token_counts", said, self._with_ids)
        elif self._answers_with_ids:
            said = (
                f"{self._tokens:,} output tokens of {counted(self._answers_with_ids, 'answer')} are as many as the "
                "server reported"
            )
            yield Claim("token_counts", "consistent", said, self._with_ids)
        if without := self._answers - self._answers_with_ids:
            said = f"{counted(without, 'answer')} came without token ids: their text alone shows nothing of the model"
            yield Claim("answers_without_ids", "not_provable", said, self._rollouts)
        if self._logprobs:
            said = f"the log-probabilities of {counted(self._logprobs.count, 'answer')} cannot be a model's own"
            yield self._logprobs.refutes("logprobs", said, self._with_ids)
        elif self._with_logprobs:
            said = (
                f"the log-probabilities of {counted(self._with_logprobs, 'answer')} are finite, at most 0 and plausible"
            )
            yield Claim("logprobs", "consistent", said, self._with_ids)
        if self._extending or self._forked:
            prompts = counted(self._extending + self._forked, "later prompt")
            said = (
                f"{self._extending:,} of {prompts} begin with the ids of the prompt and answer before; the others are "
                "branches, or were tokenised anew"
            )
            yield Claim("prompts", "consistent", said, self._with_ids)
