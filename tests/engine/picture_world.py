"""An environment whose task, user and tool show pictures; it is played here, and served from this file."""

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Media,
    Message,
    ModelRequest,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    Text,
    picture,
    tool,
)
from rollouthub.messages import assistant, media_of, user


def png(shade: int) -> bytes:
    """A picture of one pixel."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)

    header = (1).to_bytes(4) + (1).to_bytes(4) + bytes([8, 0, 0, 0, 0])
    pixels = chunk(b"IDAT", zlib.compress(bytes([0, shade])))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


TASK, USER, TOOL = png(1), png(2), png(3)


class PictureConfig(EnvironmentConfig):
    """Where pictures come from."""

    file: str = ""
    """A file that the task's picture is read from."""
    count: int = 1
    """Tasks; the picture of each is its own."""
    asks_judge: bool = False
    shows: bool = True
    """Whether the task's picture is shown, or words alone."""
    padding: int = 0
    """Bytes that each picture has more."""


class PictureWorld(Environment[PictureConfig]):
    """Three pictures to tell apart."""

    reads_turns = True
    scores_transcripts = True

    @classmethod
    def roles(cls, config: PictureConfig) -> tuple[str, ...]:
        """A judge, where it is wanted."""
        return ("judge",) if config.asks_judge else ()

    @classmethod
    def tasks(cls, config: PictureConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Each shows a picture between words."""
        for index in range(config.count):
            more = Random(index).randbytes(config.padding)
            content = TASK if index == 0 and not more else png(index % 256) + b"%d" % index + more
            part = picture(Path(config.file) if config.file else content) if config.shows else Text(text="nothing")
            shown = (Text(text="Look:"), part, Text(text="Which shade?"))
            prompt = (Message(role="user", content=shown),)
            yield Task(Public(id=f"{split}/{index}", prompt=prompt), Secret(reference=(assistant("1"),)))

    async def setup(self) -> None:
        """Nothing is said yet."""
        self.replies = 0

    @tool
    async def look(self) -> Media:
        """Look again."""
        return picture(TOOL)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Show another picture, once."""
        self.replies += 1
        if self.replies > 1:
            return None
        return (Message(role="user", content=(Text(text="And this?"), picture(USER))),)

    async def verify(self, submission: Submission) -> Score:
        """Right where the verifier can see the pictures of the task, the user and the tool, if it was called."""
        seen = [part.read() for part in media_of(submission.transcript)]
        if self.config.asks_judge:
            question = Message(role="user", content=(Text(text="Good?"), picture(png(9))))
            await self.models["judge"].generate(ModelRequest(messages=[question, user("Say yes.")]))
        by_turn = [part.read() for turn in submission.turns for part in media_of(turn.messages)]
        shown = (TASK, USER, TOOL) if any(message.role == "tool" for message in submission.transcript) else (TASK, USER)
        return Score(reward=float(all(each in seen and each in by_turn for each in shown)))
