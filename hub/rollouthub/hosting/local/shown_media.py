"""The media that an episode shows, kept until its end and found by digest."""

import base64
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from anyio import to_thread
from mcp_types import AudioContent, CallToolResult, ImageContent

from rollouthub.errors import TaskError
from rollouthub.hosting.local.submitted_contents import showing
from rollouthub.messages import Message, digest_of, holding, media_of
from rollouthub.score import ModelCall, Submission


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
        for block in result.content:
            if isinstance(block, ImageContent | AudioContent):
                self._returned.append(block)

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
