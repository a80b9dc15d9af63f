"""Which rollouts must not be trained on, and why, so that no trainer gets such a rollout and each refusal has a
name.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from rollouthub.errors import UsageError
from rollouthub.rollout import SUSPECT, Outcome, Rollout, Turn
from rollouthub.score import Score

Need = Literal["tokens", "logprobs", "text"]
"""What a trainer needs of a rollout: token ids, ids with the sampler's log-probabilities, or text."""

_LOWEST_LOGPROB = -9999.0
"""What vLLM writes where it has no log-probability; a sampled token's is higher."""
_MOST_REWARD = 3e38
"""Maximum of the sum of a rollout's absolute rewards, so that rewards and their sums fit 32-bit floats."""


class Refusal(StrEnum):
    """Why a rollout, or a group of them, makes no training row."""

    UNSCORED = "unscored"
    """The rollout has no verdict: a fault occurred, or it was cancelled. This is never a reward of 0."""
    PRIVILEGED = "privileged"
    """The agent played the reference solution."""
    SUSPECT = "suspect"
    """The verifier gave a reason not to trust the reward."""
    HELPED = "helped"
    """A person gave the agent information during the episode."""
    NO_TURNS = "no_turns"
    TEXT_ONLY = "text_only"
    """A turn lacks the engine's token ids; text is never tokenised again."""
    NO_LOGPROBS = "no_logprobs"
    """A turn lacks a log-probability for each sampled id."""
    CORRUPT = "corrupt"
    """The rollout's arrays contradict each other, or hold impossible values."""
    INCOMPLETE_GROUP = "incomplete_group"
    """The rollout's group lacks members that the trainer requires."""
    OTHER_TOKENIZER = "other_tokenizer"
    """The token ids are of another tokenizer than the trainer's or the other rows'."""
    FORKED = "forked"
    """The rollout makes several rows, and the trainer takes only one."""
    SEVERAL_SEATS = "several_seats"
    """Several seats of the rollout are trained, and the trainer takes one, or one reward for all."""
    TOO_LONG = "too_long"
    STALE = "stale"
    FILTERED = "filtered"
    """A filter of the user, or the record itself, excludes the rollout."""


@dataclass(frozen=True, slots=True)
class RefusalReason:
    """One refusal: its name, and an explanation."""

    refusal: Refusal
    reason: str
    rollout_id: str = ""


class NotTrainable(UsageError):
    """A rollout was to be trained on that must not be."""

    def __init__(self, refused: RefusalReason) -> None:
        which = f"rollout {refused.rollout_id}: " if refused.rollout_id else ""
        super().__init__(f"{which}{refused.reason} ({refused.refusal.value}); it is not to be learnt from")
        self.refused = refused


def why_refused(
    rollout: Rollout, need: Need = "logprobs", *, suspect: bool = False, seat: str | None = None
) -> RefusalReason | None:
    """Why a rollout must not be trained on; None if it may. With `suspect`, a suspect reward is not a reason.

    With `seat`, only that seat's turns are to be trained on.

    The record's contents are checked, not only its flag `trainable`, because the record may have been edited, truncated
    or made elsewhere.
    """

    def refused(refusal: Refusal, reason: str) -> RefusalReason:
        return RefusalReason(refusal, reason, rollout.rollout_id)

    if rollout.outcome is not Outcome.SCORED or rollout.score is None:
        return refused(Refusal.UNSCORED, f"it was not scored: {rollout.outcome.value}")
    if rollout.score.suspect is not None and not suspect:
        return refused(Refusal.SUSPECT, f"its score is suspect: {rollout.score.suspect}")
    if rollout.told:
        return refused(Refusal.HELPED, "a person told its agent something while it played")
    if not rollout.turns:
        return refused(Refusal.NO_TURNS, "no agent said anything in it")
    if not rollout.trainable and (rollout.trainable_reason or "").startswith("played the reference"):
        return refused(Refusal.PRIVILEGED, "it played the reference solution")
    if need == "text":
        return None
    if [turn.index for turn in rollout.turns] != list(range(len(rollout.turns))):
        return refused(Refusal.CORRUPT, "its turns are not numbered as they follow one another")
    if (problem := _impossible_rewards(rollout, rollout.score)) is not None:
        return refused(Refusal.CORRUPT, problem)
    turns = [turn for turn in rollout.policy_turns if seat in (None, turn.agent)]
    if not turns and seat is not None:
        spoken = ", ".join(rollout.policy_seats) or "none"
        return refused(Refusal.NO_TURNS, f"seat {seat!r} has no turn of the run's model; seats that have: {spoken}")
    for turn in turns:
        if (found := _why_turn_refused(turn, rollout.model_of(turn.agent), need)) is not None:
            refusal, problem = found
            return refused(refusal, f"turn {turn.index} {problem}")
    is_asked_for = suspect and (rollout.trainable_reason or "").startswith(SUSPECT)
    if need == "logprobs" and not rollout.trainable and not is_asked_for:
        return refused(Refusal.FILTERED, rollout.trainable_reason or "its record says it is not to be learnt from")
    return None


def _why_turn_refused(turn: Turn, model: str | None, need: Need) -> tuple[Refusal, str] | None:
    """Why a turn's tokens cannot be trained on; None if they can."""
    prompt, output, logprobs = turn.prompt_token_ids, turn.output_token_ids, turn.output_logprobs
    if prompt is None or output is None or turn.token_source != "engine":
        return Refusal.TEXT_ONLY, f"has no token ids of {f'the fallback {turn.model}' if turn.model else 'its engine'}"
    if turn.model not in (None, model):
        return Refusal.OTHER_TOKENIZER, f"was answered by {turn.model}, not by {model}"
    if not len(prompt) or not len(output):
        return Refusal.CORRUPT, f"has {len(prompt)} prompt and {len(output)} output ids"
    if prompt.has_negative or output.has_negative:
        return Refusal.CORRUPT, "has a negative token id"
    if (problem := _contradiction(turn, len(output))) is not None:
        return Refusal.CORRUPT, problem
    count = 0 if logprobs is None else len(logprobs)
    if need == "tokens":
        # Nothing is learnt from log-probabilities then, but they stand in the rows.
        is_aligned = count in (0, len(output))
        return None if is_aligned else (Refusal.CORRUPT, f"has {count} log-probabilities for {len(output)} ids")
    if logprobs is None or count != len(output):
        return Refusal.NO_LOGPROBS, f"has {count} log-probabilities for {len(output)} ids"
    if not all(_LOWEST_LOGPROB < value <= 1e-3 for value in logprobs):
        return Refusal.CORRUPT, "has a log-probability that is none"
    return None


def _impossible_rewards(rollout: Rollout, score: Score) -> str | None:
    """Why a rollout's rewards cannot be placed: a turn or token is missing, or they are too large; None if they can."""
    for span in score.span_rewards:
        if not 0 <= span.turn < len(rollout.turns):
            return f"its score rewards a span of turn {span.turn}, and it has {len(rollout.turns)} turns"
        ids = rollout.turns[span.turn].output_token_ids
        if span.unit == "token" and ids is not None and span.end > len(ids):
            return f"its score rewards tokens up to {span.end} of turn {span.turn}, which has {len(ids)}"
    given = [score.reward, *score.seat_rewards.values(), *(span.reward for span in score.span_rewards)]
    given += (turn.reward for turn in rollout.turns if turn.reward is not None)
    if sum(map(abs, given)) > _MOST_REWARD:
        return "its rewards are too large for the 32-bit numbers of trainers"
    return None


def _contradiction(turn: Turn, count: int) -> str | None:
    """Which of a turn's arrays contradicts the number of sampled ids, or holds invalid values; None if all fit."""
    arrays = {
        "output_mask": turn.output_mask,
        "output_text_ends": turn.output_text_ends,
        "policy_versions": turn.policy_versions,
    }
    for name, array in arrays.items():
        if array is not None and len(array) != count:
            return f"has {len(array)} values in {name} for {count} ids"
    if turn.output_mask is not None and not set(turn.output_mask) <= {0, 1}:
        return "has values in output_mask other than 0 and 1"
    if turn.policy_version is not None and not -(2**31) <= turn.policy_version < 2**31:
        return "has a policy version that does not fit 32 bits"
    return None
