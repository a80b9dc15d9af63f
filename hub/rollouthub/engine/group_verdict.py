"""The verdict on a group: what its verifier is given, and the scores that its members get from it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from pydantic import JsonValue

from rollouthub.engine.new_verdict import scored_again
from rollouthub.errors import NotOffered, RunDirectoryError, TaskError, UnknownNameError
from rollouthub.hosting.local.submitted_contents import contents_in, group_with_contents, submissions_of
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, EnvironmentInfo, TaskCard
from rollouthub.rollout import Rollout, submission_of
from rollouthub.score import GroupMember, LostMember, SampleGroup, Score
from rollouthub.store import RunReader

GROUP = "group"
"""Key of a score's metadata under which a member of a group records who was scored with it, and who was lost."""
OWN = "verify"
"""Name of the metric that holds the reward of a member's own `verify`, unless the group's verdict has a metric of
this name.
"""
MOST_CHARACTERS = 300
"""Most characters of the reason why a member is lost."""


async def group_verdict(
    host: EnvironmentHost,
    task: TaskCard,
    members: Sequence[Rollout],
    asked: SampleGroup,
    *,
    seed: int,
    deadlines: Deadlines,
) -> list[Score]:
    """The members' final scores: the group's, with what their own `verify` gave.

    Raises:
        EpisodeError: there are no scores.
    """
    try:
        scores = await host.score_group(task, asked, seed=seed, deadlines=deadlines)
    except NotOffered as error:
        raise TaskError(str(error), retryable=False) from error
    for rollout, score in zip(members, scores, strict=True):
        scored_again(rollout, score, host.info.seats)
    facts = _group_facts(asked)
    return [_merged(rollout.score, score, facts) for rollout, score in zip(members, scores, strict=True)]


def group_of(members: Sequence[Rollout], lost: Iterable[LostMember], info: EnvironmentInfo) -> SampleGroup:
    """A group in the form that its verifier gets; each member's score is that of its own `verify`."""
    return SampleGroup(
        members=tuple(
            GroupMember(
                sample=rollout.sample,
                submission=submission_of(rollout, info.seats[0], with_turns=info.reads_turns),
                score=rollout.score,
            )
            for rollout in members
        ),
        lost=tuple(sorted(lost, key=lambda member: member.sample)),
    )


def with_stored_contents(group: SampleGroup, reader: RunReader) -> SampleGroup:
    """The group with the bytes of its members' media and artifacts, as far as the run's store has them."""
    found: dict[str, bytes] = {}
    for content in contents_in(submissions_of(group)):
        with suppress(UnknownNameError, RunDirectoryError):
            found[content.digest] = reader.media(content.digest)
    return group_with_contents(group, found)


def lost_member(rollout: Rollout) -> LostMember:
    """How a sample that cannot be judged with its group is named to the verifier."""
    fault = next(iter(rollout.faults), None)
    reason = None if fault is None else f"{fault.type}: {fault.message}"[:MOST_CHARACTERS]
    return LostMember(sample=rollout.sample, outcome=rollout.outcome.value, reason=reason)


def _group_facts(group: SampleGroup) -> dict[str, JsonValue]:
    """What each member's record says about its group: the samples that were scored, and those that were lost."""
    return {
        "samples": [member.sample for member in group.members],
        "lost": [{"sample": member.sample, "outcome": member.outcome} for member in group.lost],
    }


def _merged(own: Score | None, score: Score, group: dict[str, JsonValue]) -> Score:
    """A member's score from the group's verdict, with the metrics, suspicion and judge calls of its own `verify`."""
    metrics = score.metrics if own is None else {OWN: own.reward, **score.metrics}
    return score.model_copy(
        update={
            "metrics": metrics,
            "suspect": score.suspect or (own and own.suspect),
            "judge_calls": (*(own.judge_calls if own is not None else ()), *score.judge_calls),
            "metadata": {**score.metadata, GROUP: group},
        }
    )
