"""The transcript of a rollout in a report: bounded in length, and without control characters."""

from typing import Literal

from rollouthub.values import Frozen


class Picture(Frozen):
    """A picture that is small enough for a report, and is of the type it claims."""

    mime_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    base64: str


class TranscriptBlock(Frozen):
    """A message, a model's reasoning, a tool call, or a note on what was left out."""

    kind: Literal["system", "user", "assistant", "reasoning", "call", "omitted"]
    text: str = ""
    """The text, or a call's arguments; a text that was cut says so at its end."""
    tool: str | None = None
    result: str | None = None
    is_error: bool = False
    seconds: float | None = None
    pictures: tuple[Picture, ...] = ()
    not_shown: tuple[str, ...] = ()
    """Reasons why pictures and other media are not in the report."""


class Transcript(Frozen):
    """The transcript of one rollout."""

    chosen: Literal["worst", "best", "unscored"]
    rollout_id: str
    environment: str
    task: str
    sample: int
    outcome: str
    stop: str
    reward: float | None
    passed: bool | None
    components: dict[str, str]
    """Score component → "value × weight"."""
    feedback: str | None
    answer: str | None
    fault: str | None
    turns: int
    output_tokens: int
    seconds: float
    blocks: tuple[TranscriptBlock, ...]
