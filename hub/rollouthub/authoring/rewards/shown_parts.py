"""What a judge or reward model is shown: texts, with the pictures, sounds and files at their places in them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from rollouthub.messages import Media, Message, Text, media_of
from rollouthub.score import Submission
from rollouthub.task import Public, Task

Shown: TypeAlias = str | Sequence[str | Text | Media]
"""A text, or its pieces in order, with media between them."""
Parts: TypeAlias = tuple[str | Media, ...]
LEFT_OUT = "\n[… {count} characters left out …]\n"


def parts_of(shown: Shown) -> Parts:
    """The pieces of what is shown; adjacent texts are one piece."""
    pieces: list[str | Media] = []
    for piece in [shown] if isinstance(shown, str) else shown:
        text = piece.text if isinstance(piece, Text) else piece
        if isinstance(text, str) and pieces and isinstance(pieces[-1], str):
            pieces[-1] += text
        else:
            pieces.append(text)
    return tuple(pieces)


def shortened(shown: Shown, most_characters: int, note: str = LEFT_OUT) -> Parts:
    """The pieces without the middle of their text if it is longer than `most_characters`; all media stay.

    `note` stands where the text was; it may name the `{count}` of characters left out.
    """
    pieces = parts_of(shown)
    total = sum(len(piece) for piece in pieces if isinstance(piece, str))
    if total <= most_characters:
        return pieces
    half = most_characters // 2
    gap = [note.format(count=f"{total - 2 * half:,}")]
    kept: list[str | Media] = []
    place = 0
    for piece in pieces:
        if isinstance(piece, Media):
            kept.append(piece)
            continue
        kept.append(piece[: max(0, half - place)])
        if gap and place + len(piece) > half:
            kept.append(gap.pop())
        kept.append(piece[max(0, total - half - place) :])
        place += len(piece)
    return parts_of([piece for piece in kept if piece])


def conversation_parts(messages: Sequence[Message]) -> Parts:
    """A conversation as one JSON line per message, so that no message can imitate another; media at their places."""
    pieces: list[str | Media] = []
    for place, message in enumerate(messages):
        pieces.append("\n" if place else "")
        pieces += _line(message)
    return parts_of(pieces)


def _line(message: Message) -> Iterator[str | Media]:
    yield f'{{"role": {json.dumps(message.role)}, "text": '
    if isinstance(message.content, str) or all(isinstance(part, Text) for part in message.content):
        yield json.dumps(message.text, ensure_ascii=False)
    else:
        for place, part in enumerate(message.content):
            yield ", " if place else "["
            yield json.dumps(part.text, ensure_ascii=False) if isinstance(part, Text) else part
        yield "]"
    if message.tool_requests:
        calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_requests]
        yield f', "calls": {json.dumps(calls, ensure_ascii=False)}'
    yield "}"


def question_of(public: Public) -> Parts:
    """A task's prompt."""
    return (public.prompt,) if isinstance(public.prompt, str) else conversation_parts(public.prompt)


def answer_of(submission: Submission, *, sees_conversation: bool = False) -> Parts:
    """The submitted answer, else the agent's last message; with `sees_conversation`, the whole transcript."""
    if sees_conversation:
        return conversation_parts(submission.transcript)
    last = next((each for each in reversed(submission.transcript) if each.role == "assistant"), None)
    if submission.answer is not None or last is None or not media_of([last]):
        return (submission.final,)
    return parts_of(last.content)


def reference_of(task: Task[Any, Any]) -> str | None:
    """The secret's `answer` as text; None if there is none."""
    answer = task.secret.answer
    return answer if isinstance(answer, str) or answer is None else json.dumps(answer)
