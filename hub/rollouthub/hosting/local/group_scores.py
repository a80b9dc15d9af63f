"""Scores all samples of a task together: calls `verify_group` once and checks what it returns."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from rollouthub.environment import Environment
from rollouthub.errors import SandboxOverrun, VerifierError
from rollouthub.event_loop import call_hook
from rollouthub.generation import Model
from rollouthub.hosting.local.environment_faults import verifier_faults
from rollouthub.hosting.local.returned_score import checked_score, score_from
from rollouthub.hosting.local.role_models import recorded
from rollouthub.limits import Deadlines, charged
from rollouthub.score import ModelCall, SampleGroup, Score, VerifierRef


def group_seconds(deadlines: Deadlines, group: SampleGroup) -> float:
    """Seconds that a group's verdict may take: the verify deadline times the number of members."""
    return deadlines.verify * max(1, len(group.members))


async def group_scores(
    environment: Environment[Any],
    group: SampleGroup,
    verifier: VerifierRef,
    models: Mapping[str, Model],
    deadlines: Deadlines,
) -> Sequence[Score]:
    """The scores of a group's members, in order, from `verify_group` of a fresh instance.

    Raises:
        VerifierError: the verifier failed, or returned something other than a score for each member.
        SandboxError: a sandbox broke under it.
    """
    calls: list[ModelCall] = []
    environment.group = group
    environment.models = recorded(models, calls)
    seconds = group_seconds(deadlines, group)
    submissions = [member.submission for member in group.members]
    returned: object = None
    try:
        with verifier_faults(environment.task.id), anyio.move_on_after(seconds) as scope, charged(scope):
            returned = await call_hook(environment.verify_group, submissions)
    except SandboxOverrun as error:
        # Nobody knows whose it was: `verify`, which sees one submission, is the place to run what agents wrote.
        raise VerifierError(f"what verify_group ran ended its sandbox: {error}", retryable=False) from error
    if scope.cancelled_caught:
        raise VerifierError(f"verify_group gave no scores within {seconds:g} s")
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        raise VerifierError(f"verify_group returned a {type(returned).__name__}: return a score for each submission")
    values: Sequence[object] = returned
    if len(values) != len(submissions):
        raise VerifierError(f"verify_group returned {len(values)} scores for {len(submissions)} submissions")
    scores = [score_from(value, "verify_group") for value in values]
    return [
        checked_score(score, {"verifier": verifier, **claim})
        for score, claim in zip(scores, _calls(scores, calls), strict=True)
    ]


def _calls(scores: Sequence[Score], calls: Sequence[ModelCall]) -> list[dict[str, Any]]:
    """The judge calls to add to each score: all with the first score, unless the verifier itself assigned them."""
    if not calls or any(score.judge_calls for score in scores):
        return [{} for _ in scores]
    return [{"judge_calls": tuple(calls)}, *({} for _ in scores[1:])]
