"""A rollout as a report tells it: bounded in length, and plain."""

from typing import Literal

from rollouthub.frozen import Frozen


class Picture(Frozen):
    """A picture that is small enough to be in the report, and is what it says to be."""

    mime_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    base64: str


class TranscriptBlock(Frozen):
    """Something said, or a tool called."""

    kind: Literal["system", "user", "assistant", "reasoning", "call", "omitted"]
    text: str = ""
    """Of a call: its arguments. Cut where it is long, and says so."""
    tool: str | None = None
    result: str | None = None
    is_error: bool = False
    seconds: float | None = None
    pictures: tuple[Picture, ...] = ()
    not_shown: tuple[str, ...] = ()
    """Pictures and other media that are not in the report, and why."""


class Transcript(Frozen):
    """One rollout."""

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
    """Name → value × weight."""
    feedback: str | None
    answer: str | None
    fault: str | None
    turns: int
    output_tokens: int
    seconds: float
    blocks: tuple[TranscriptBlock, ...]
