"""A world of pictures: a tool shows one, and the answer is how wide it is; its task may show one, too."""

import base64
from collections.abc import Iterable
from io import BytesIO

from mcp_types import CallToolResult, ImageContent, TextContent
from PIL import Image

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    Text,
    picture,
    tool,
)

WIDTHS = (56, 112)


QUESTION = "How wide is it?"


def drawn(width: int, colour: str = "red") -> bytes:
    """The picture, as PNG."""
    written = BytesIO()
    Image.new("RGB", (width, 56), colour).save(written, "PNG")
    return written.getvalue()


FRAME = drawn(84, "blue")
"""What a task shows that shows something."""


class GalleryConfig(EnvironmentConfig):
    """What its tasks show."""

    framed: bool = False


class Gallery(Environment[GalleryConfig]):
    """Say how wide the picture is."""

    submits = False

    @classmethod
    def tasks(cls, config: GalleryConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        shown = Message(role="user", content=(picture(FRAME), Text(text=QUESTION)))
        for width in WIDTHS:
            yield Task(Public(id=str(width), prompt=(shown,) if config.framed else QUESTION), Secret())

    @tool
    async def look(self) -> CallToolResult:
        """See the picture."""
        data = base64.b64encode(drawn(int(self.task.public.id))).decode()
        return CallToolResult(content=[TextContent(text="Here:"), ImageContent(data=data, mime_type="image/png")])

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.task.public.id in submission.final))
