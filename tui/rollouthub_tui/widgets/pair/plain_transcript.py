"""A rollout as lines of plain text, turn by turn, for comparison with another."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rollouthub.messages import Media, Message
from rollouthub.rollout import Rollout, ToolCall, Turn
from rollouthub.views.terminal.text_fit import apart
from rollouthub_tui.widgets.rollout.drawable_text import drawn
from rollouthub_tui.widgets.safe_words import named

LONGEST = 4_000_000
"""Most characters of one text that are shown."""
LONGEST_LINE = 2_000
"""Most characters of a line; a longer one is continued on the next."""


@dataclass(frozen=True, slots=True)
class TurnLines:
    """The lines of one turn."""

    place: int
    """Index of the turn in the record; -1 for the lines on the score, after all turns."""
    lines: tuple[str, ...]


def transcript_of(rollout: Rollout) -> list[TurnLines]:
    """The turns of a rollout, then its score."""
    made = [TurnLines(place, tuple(_turn_lines(turn))) for place, turn in enumerate(rollout.turns)]
    made.append(TurnLines(-1, tuple(_ending_lines(rollout))))
    return made


def _turn_lines(turn: Turn) -> Iterator[str]:
    agent = "" if turn.agent == "agent" else f" · {named(turn.agent)}"
    yield f"── turn{agent}"
    for message in turn.messages:
        # A tool's message says what the call before it gave, which is shown there.
        if message.role != "tool":
            yield from _message_lines(message)
    yield from _message_lines(turn.response)
    for call in turn.tool_calls:
        yield from _call_lines(call)


def _message_lines(message: Message) -> Iterator[str]:
    if message.reasoning:
        yield from _block("thinks", message.reasoning)
    text = message.text
    if text or not message.tool_requests:
        yield from _block(message.role, text)
    if not isinstance(message.content, str):
        for part in message.content:
            if isinstance(part, Media):
                yield f"  [{named(part.mime_type)} {named(part.digest)}]"


def _call_lines(call: ToolCall) -> Iterator[str]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    yield from _block(f"calls {named(call.name)}", arguments)
    texts = [getattr(block, "text", None) or f"[{block.type}]" for block in call.result.content]
    yield from _block("error" if call.is_error else "result", "\n".join(texts))


def _ending_lines(rollout: Rollout) -> Iterator[str]:
    yield "── score"
    yield f"outcome {rollout.outcome.value}, ended: {rollout.stop.value}".replace("_", " ")
    if rollout.answer is not None:
        yield from _block("submitted", rollout.answer)
    if rollout.score is not None:
        passed = rollout.score.passed
        yield f"reward {rollout.score.reward:g}" + ("" if passed is None else ", passed" if passed else ", not passed")
        for name, part in rollout.score.components.items():
            yield f"  {named(name)} = {part.value:g} × {part.weight:g}"
        if rollout.score.feedback:
            yield from _block("feedback", rollout.score.feedback)
    for fault in rollout.faults:
        yield from _block(f"fault in {fault.boundary} during {fault.phase}", f"{fault.type}: {fault.message}")


def _block(label: str, text: str) -> Iterator[str]:
    shown = apart(drawn(text[:LONGEST]))
    if len(text) > LONGEST:
        shown += f" … [{len(text)} characters in all]"
    lines = list(_split(shown))
    if len(lines) == 1 and len(label) + len(lines[0]) < LONGEST_LINE:
        yield f"{label}: {lines[0]}"
        return
    yield f"{label}:"
    for line in lines:
        yield f"  {line}"


def _split(text: str) -> Iterable[str]:
    for line in text.split("\n"):
        if len(line) <= LONGEST_LINE:
            yield line
        else:
            for start in range(0, len(line), LONGEST_LINE):
                yield line[start : start + LONGEST_LINE]
