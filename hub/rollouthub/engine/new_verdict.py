"""Replaces the verdict of a record: after a change of the verifier, or by the verdict on its group."""

from collections.abc import Collection

from rollouthub.engine.agent_kind import is_reference
from rollouthub.engine.attribution import OUTCOMES, fault_of
from rollouthub.engine.placed_rewards import SPAN_TOKENS, place_rewards, unmapped_spans, with_token_spans
from rollouthub.engine.trainable import FAILED_AT, PRIVILEGED, why_not_trainable
from rollouthub.errors import EpisodeError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.score import Score


def scored_again(rollout: Rollout, score: Score, seats: Collection[str]) -> Rollout:
    """The record with a new score, without the faults of the verification before.

    Raises:
        VerifierError: the score names a turn, tokens or a seat that the rollout does not have.
    """
    place_rewards(rollout.turns, score, seats)
    return _with(rollout, Outcome.SCORED, score)


def awaiting_group(rollout: Rollout, own: Score | None) -> Rollout:
    """The record without its verdict, as it waits for its group's; `own` is the score of its own `verify`.

    Raises:
        VerifierError: the score names a turn or tokens that the rollout does not have.
    """
    return _with(rollout, Outcome.SCORED, own).model_copy(update={"awaits_group": True})


def without_verdict(rollout: Rollout, error: EpisodeError) -> Rollout:
    """The record of a rollout whose new verdict failed."""
    fault = fault_of(error, "verify")
    broken = _with(rollout, OUTCOMES[fault.boundary], None)
    return broken.model_copy(update={"faults": (*broken.faults, fault)})


def _with(rollout: Rollout, outcome: Outcome, score: Score | None) -> Rollout:
    was_privileged = rollout.trainable_reason == PRIVILEGED or is_reference(rollout.agent.name)
    reason = why_not_trainable(
        outcome,
        rollout.policy_turns,
        was_privileged,
        had_interventions=bool(rollout.told),
        suspect=score and score.suspect,
    )
    was = rollout.trainable_reason or ""
    reason = reason or (was if was.startswith(FAILED_AT) else None)
    score = with_token_spans(rollout.turns, score)
    gaps = (*(gap for gap in rollout.gaps if gap != SPAN_TOKENS), *unmapped_spans(rollout.turns, score))
    return rollout.model_copy(
        update={
            "outcome": outcome,
            "score": score,
            "awaits_group": False,
            "turns": place_rewards(rollout.turns, score, score and score.seat_rewards),
            "faults": tuple(fault for fault in rollout.faults if fault.phase != "verify"),
            "trainable": reason is None,
            "trainable_reason": reason,
            "gaps": gaps,
        }
    )
