"""The world that the conformance suite plays in: its fixture tools, in an environment like any other."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import anyio
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import Field

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, ToolError, tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
"""A picture of one red pixel, PNG in base64."""
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
"""A sound file without a sample, WAV in base64."""
STEP_SECONDS = 0.05
"""How far apart the suite wants notifications to be."""
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Every keyword the suite looks for in a listing."""


class SuiteWorld(Environment[EnvironmentConfig]):
    """One task; every tool answers as the suite's scenario of that name expects."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="Be conformant."), Secret(answer="yes"))

    @classmethod
    def more_tools(cls, config: Any) -> Sequence[Tool]:
        described = "A schema with the keywords of JSON Schema 2020-12."
        return [Tool(name="json_schema_2020_12_tool", description=described, input_schema=SCHEMA)]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=f"{name}: {sorted(arguments)}")])

    @tool
    async def test_simple_text(self) -> str:
        """Answer with a text."""
        return "This is a simple text response for testing."

    @tool
    async def test_image_content(self) -> ImageContent:
        """Answer with a picture."""
        return ImageContent(data=PIXEL, mime_type="image/png")

    @tool
    async def test_audio_content(self) -> AudioContent:
        """Answer with a sound."""
        return AudioContent(data=SILENCE, mime_type="audio/wav")

    @tool
    async def test_embedded_resource(self) -> EmbeddedResource:
        """Answer with a resource."""
        return _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")

    @tool
    async def test_multiple_content_types(self) -> CallToolResult:
        """Answer with a text, a picture and a resource."""
        return CallToolResult(
            content=[
                TextContent(text="Multiple content types test:"),
                ImageContent(data=PIXEL, mime_type="image/png"),
                _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
            ]
        )

    @tool
    async def test_error_handling(self) -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    @tool
    async def test_tool_with_progress(self) -> str:
        """Say how far it is, three times."""
        for done in (0, 50, 100):
            await self.report_progress(done, 100)
            await anyio.sleep(STEP_SECONDS)
        return "Done."

    @tool
    async def test_streaming_elicitation(self) -> str:
        """Answer, where other servers would ask the client something first."""
        return "Nothing to ask."

    @tool
    async def test_logging_tool(self) -> str:
        """Answer; what it logs stays with the environment."""
        return "Logged."

    @tool
    async def test_x_mcp_header(
        self, region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], zone: str = ""
    ) -> str:
        """Answer from a region that the client names in a header, too."""
        return f"{region}{zone}"

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(submission.answer == self.task.secret.answer))


def _resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
