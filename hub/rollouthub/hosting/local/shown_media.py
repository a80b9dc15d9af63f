"""The media that an episode shows, kept until its end and found by digest."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from anyio import to_thread
from mcp_types import AudioContent, CallToolResult, ImageContent

from rollouthub.errors import TaskError
from rollouthub.messages import Media, Message, digest_of, holding, media_of
from rollouthub.score import ModelCall, SampleGroup, Score, Submission, SubmittedTurn


@runtime_checkable
class ShowingEpisode(Protocol):
    """An episode whose media can be read by digest."""

    def media(self, digest: str) -> bytes | None:
        """The bytes of media in the episode's own messages or model calls; None for any other digest."""
        ...

    def with_media(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, with bytes for those of the episode's media that have none."""
        ...


class ShownMedia:
    """The media that one episode has shown so far."""

    def __init__(self) -> None:
        self._shown: dict[str, bytes] = {}
        self._returned: list[ImageContent | AudioContent] = []
        """Media in tool results since bytes were last asked for."""

    def returned(self, result: CallToolResult) -> None:
        """Note the media in a tool's result."""
        self._returned += (block for block in result.content if isinstance(block, ImageContent | AudioContent))

    async def show(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages about to be shown, with the bytes of their media; files are read here.

        Raises:
            TaskError: bytes are missing, or a file cannot be read.
        """
        parts = media_of(messages)
        if not parts:
            return messages
        for part in parts:
            content = self._shown.get(part.digest)
            if content is None:
                content = await to_thread.run_sync(part.read) if part.is_file else part.read()
            if content is None:
                raise TaskError(
                    f"the environment shows media {part.digest} without its bytes; make it with rollouthub.picture()",
                    retryable=False,
                )
            self._shown[part.digest] = content
        return holding(messages, self._shown)

    def given_back(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, with bytes for media that were shown before."""
        shown = self._all()
        return holding(messages, shown) if shown else messages

    def _all(self) -> dict[str, bytes]:
        returned, self._returned = self._returned, []
        for block in returned:
            try:
                content = base64.b64decode(block.data)
            except ValueError:
                continue  # whoever called the tool is told
            self._shown[digest_of(content)] = content
        return self._shown

    def find(self, digest: str, calls: Iterable[ModelCall]) -> bytes | None:
        """The bytes of media that were shown in messages, tool results or model calls; None for any other digest."""
        if (content := self._all().get(digest)) is not None:
            return content
        parts = (part for call in calls for part in media_of(call.messages))
        return next((part.read() for part in parts if part.digest == digest), None)


def with_media(submission: Submission, episode: object) -> Submission:
    """A submission received from a client, with the bytes of the media that its episode has."""
    if not isinstance(episode, ShowingEpisode):
        return submission
    return showing(submission, episode.with_media)


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


def group_media(group: SampleGroup) -> list[Media]:
    """The media in the messages of a group's submissions, each once."""
    submissions = [member.submission for member in group.members]
    turns = [message for each in submissions for turn in each.turns for message in (*turn.messages, turn.response)]
    transcripts = [message for each in submissions for message in each.transcript]
    return list(dict.fromkeys(media_of((*transcripts, *turns))))


def showing_group(group: SampleGroup, media: Mapping[str, bytes]) -> SampleGroup:
    """A group whose messages have the bytes of their media, as far as `media` gives them by digest."""
    if not media:
        return group
    members = (
        member.model_copy(update={"submission": showing(member.submission, lambda said: holding(said, media))})
        for member in group.members
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
