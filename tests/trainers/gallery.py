"""A world of pictures: a tool shows one, and the answer is how wide it is."""

import base64
from collections.abc import Iterable
from io import BytesIO

from mcp_types import CallToolResult, ImageContent, TextContent
from PIL import Image

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool

WIDTHS = (56, 112)


class Gallery(Environment[EnvironmentConfig]):
    """Say how wide the picture is."""

    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for width in WIDTHS:
            yield Task(Public(id=str(width), prompt="How wide is it?"), Secret())

    @tool
    async def look(self) -> CallToolResult:
        """See the picture."""
        written = BytesIO()
        Image.new("RGB", (int(self.task.public.id), 56), "red").save(written, "PNG")
        data = base64.b64encode(written.getvalue()).decode()
        return CallToolResult(content=[TextContent(text="Here:"), ImageContent(data=data, mime_type="image/png")])

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.task.public.id in submission.final))
