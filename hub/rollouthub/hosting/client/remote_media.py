"""Fetches media of remote episodes by digest, and caches them."""

from collections import OrderedDict
from collections.abc import Sequence

from rollouthub.errors import EpisodeError, TaskError
from rollouthub.hosting.client.server_connection import ServerConnection, ServerFault
from rollouthub.messages import MOST_MEDIA_BYTES, Media, Message, digest_of, holding, media_of
from rollouthub.store.media import media_name

EPISODE_BYTES = 256 * 2**20
"""Most bytes of media in one set of messages."""
KEPT_BYTES = 64 * 2**20
"""Most bytes of one environment's media in the cache, which drops the least recently used; samples of one task show the
same media.
"""


class RemoteMedia:
    """A cache of the media of one environment server, shared by its episodes."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    async def held(
        self, messages: Sequence[Message], connection: ServerConnection, path: str, seconds: float
    ) -> tuple[Message, ...]:
        """The messages of the episode at `path`, with the bytes of their media.

        Raises:
            TaskError: the server does not send the bytes, or sends bytes of another digest.
        """
        wanted: dict[str, bytes] = {}
        for part in media_of(messages):
            if part.digest not in wanted:
                wanted[part.digest] = await self._bytes_of(part, connection, path, seconds)
                if sum(map(len, wanted.values())) > EPISODE_BYTES:
                    raise connection.fault(f"shows more than {EPISODE_BYTES >> 20} MiB of media at once")
        return holding(messages, wanted) if wanted else tuple(messages)

    async def _bytes_of(self, part: Media, connection: ServerConnection, path: str, seconds: float) -> bytes:
        digest = part.digest
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return self._kept[digest]
        try:
            media_name(digest)  # it becomes part of an address here, and of a path in the run's directory
        except ValueError as error:
            raise connection.fault(f"shows media by another name than their digest: {error}") from None
        try:
            content = await connection.download(f"{path}/media/{digest}", MOST_MEDIA_BYTES, seconds=seconds)
        except ServerFault:
            raise
        except EpisodeError as error:
            raise TaskError(
                f"the environment server shows media {digest} and does not give its bytes: {error}",
                retryable=error.retryable,
            ) from error
        if digest_of(content) != digest:
            raise connection.fault(f"gave {len(content):,} other bytes for media {digest}")
        self._keep(digest, content)
        return content

    def _keep(self, digest: str, content: bytes) -> None:
        self._kept[digest] = content
        self._bytes += len(content)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._kept.popitem(last=False)[1])
