"""The bytes that belong to submissions and scores: of pictures, sounds, files and artifacts, by digest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from rollouthub.errors import TaskError
from rollouthub.messages import Media, Message, holding, media_of
from rollouthub.score import Artifact, SampleGroup, Score, Submission, SubmittedTurn


def showing(submission: Submission, give: Callable[[Sequence[Message]], Sequence[Message]]) -> Submission:
    """A submission with `give` applied to all of its messages that have media."""
    update: dict[str, object] = {}
    if media_of(submission.transcript):
        update["transcript"] = tuple(give(submission.transcript))
    if any(media_of((*turn.messages, turn.response)) for turn in submission.turns):
        update["turns"] = tuple(_showing_turn(turn, give) for turn in submission.turns)
    return submission.model_copy(update=update) if update else submission


def _showing_turn(turn: SubmittedTurn, give: Callable[[Sequence[Message]], Sequence[Message]]) -> SubmittedTurn:
    *before, response = give((*turn.messages, turn.response))
    return turn.model_copy(update={"messages": tuple(before), "response": response})


def contents_in(submissions: Iterable[Submission]) -> list[Media | Artifact]:
    """The media and artifacts of submissions, each digest once."""
    found: dict[str, Media | Artifact] = {}
    for each in submissions:
        said = [message for turn in each.turns for message in (*turn.messages, turn.response)]
        for content in (*media_of((*each.transcript, *said)), *each.artifacts):
            found.setdefault(content.digest, content)
    return list(found.values())


def with_contents(submission: Submission, contents: Mapping[str, bytes]) -> Submission:
    """A submission whose media and artifacts have their bytes, as far as `contents` gives them by digest."""
    if not contents:
        return submission
    artifacts = (
        artifact.holding(contents[artifact.digest]) if artifact.digest in contents else artifact
        for artifact in submission.artifacts
    )
    shown = showing(submission, lambda said: holding(said, contents))
    return shown.model_copy(update={"artifacts": tuple(artifacts)}) if submission.artifacts else shown


def submissions_of(group: SampleGroup) -> list[Submission]:
    """The submissions of a group's members."""
    return [member.submission for member in group.members]


def group_with_contents(group: SampleGroup, contents: Mapping[str, bytes]) -> SampleGroup:
    """A group whose submissions have the bytes of their media and artifacts, as far as `contents` gives them."""
    if not contents:
        return group
    members = (
        member.model_copy(update={"submission": with_contents(member.submission, contents)}) for member in group.members
    )
    return group.model_copy(update={"members": tuple(members)})


def judged_media(scores: Iterable[Score]) -> dict[str, bytes]:
    """Digest → bytes of the media that models were shown for these scores, as far as they are at hand."""
    media: dict[str, bytes] = {}
    messages = [message for score in scores for call in score.judge_calls for message in call.messages]
    for part in dict.fromkeys(media_of(messages)):
        with suppress(TaskError):  # its file was changed since the judge saw it
            if (content := part.read()) is not None:
                media[part.digest] = content
    return media


def judged_with_media(score: Score, media: Mapping[str, bytes]) -> Score:
    """A score whose judge calls have the bytes of their media, as far as `media` gives them by digest."""
    if not media or not score.judge_calls:
        return score
    calls = (call.model_copy(update={"messages": holding(call.messages, media)}) for call in score.judge_calls)
    return score.model_copy(update={"judge_calls": tuple(calls)})
