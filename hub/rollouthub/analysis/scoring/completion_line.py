"""One input line to score: its task, its submission, and the text to write back.

The line's own text is retained, so that every field, and every digit of its numbers, is written back unchanged.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from rollouthub.errors import ConfigError, HubError
from rollouthub.export.task_reference import TaskReference
from rollouthub.export.task_rows import COLUMN
from rollouthub.messages import Message, assistant
from rollouthub.models.foreign_chat import ChatMessage, read_chat, submitted
from rollouthub.models.responses_rollout import read_items, row_id
from rollouthub.rollout import Outcome, Rollout, submission_of
from rollouthub.score import Submission
from rollouthub.text import one_line

BAD_ROW = "bad_row"
"""The outcome of a line whose content cannot be scored."""
ADDED = ("score", "outcome", "error")
"""Fields that scoring writes; fields of these names in the input are replaced."""
_BOM = b"\xef\xbb\xbf"
_SHOWN = 60
_NOTHING = Submission()


class BadLine(HubError):
    """A line from which no submission can be read."""


class _Line(Struct, gc=False):
    """The fields that scoring reads; the decoder skips all others without creating objects."""

    task_id: str | int | UnsetType | None = UNSET
    completion: str | UnsetType | None = UNSET
    messages: list[ChatMessage] | UnsetType | None = UNSET
    rollout_id: str | UnsetType = UNSET
    turns: Raw | UnsetType = UNSET
    responses_create_params: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET
    score: Raw | UnsetType = UNSET
    outcome: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CompletionLine:
    """An input line, parsed."""

    number: int
    """Line number in the file, from 1; blank lines count."""
    beginning: bytes
    """The output line up to the fields that scoring adds."""
    task_id: str = ""
    submission: Submission = _NOTHING
    split: str | None = None
    """The split that the line itself names; None where it names none."""
    seed: int | None = None
    unscored: Outcome | None = None
    """The outcome of the recorded rollout, where it leaves nothing to score; else None."""
    problem: str | None = None
    """Why the line cannot be scored; None where it can."""

    @property
    def size(self) -> int:
        """Approximate memory in bytes that the line takes while it waits."""
        return 3 * len(self.beginning) + 500


_decode = msgspec.json.Decoder(_Line).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class EntryReader:
    """Parses input lines; the constructor names the field that holds the answer."""

    def __init__(self, answer_field: str | None = None) -> None:
        self._answer_field = answer_field

    def read(self, raw: bytes, number: int) -> CompletionLine:
        """Parse a non-blank line. A line that cannot be scored comes back with its `problem`."""
        text = raw.strip().removeprefix(_BOM)
        try:
            line, problem = _parsed(text)
        except BadLine as error:
            return CompletionLine(number, b'{"line": ' + _quoted(text) + b", ", problem=_one_line(str(error)))
        beginning = _beginning(text, line)
        try:
            if problem is not None:
                raise BadLine(problem)
            if line.rollout_id is not UNSET and line.turns is not UNSET:
                return _rollout(text, number, beginning)
            if _is_recorded(line):
                return _recorded(text, number, beginning)
            return self._entry(text, line, number, beginning)
        except (BadLine, ValueError) as error:
            return CompletionLine(number, beginning, problem=_one_line(str(error)))

    def _entry(self, text: bytes, line: _Line, number: int, beginning: bytes) -> CompletionLine:
        if line.task_id is UNSET or line.task_id is None:
            raise BadLine("the field 'task_id' is missing; it says which task of the environment this answers")
        has_text, has_messages = isinstance(line.completion, str), isinstance(line.messages, list)
        if has_text == has_messages:
            both = "both 'completion' and 'messages'" if has_text else "neither 'completion' nor 'messages'"
            raise BadLine(f"the line has {both}; give what was said in one of them")
        answer: str | None = None
        if isinstance(line.completion, str):
            transcript: tuple[Message, ...] = (assistant(line.completion),)
        else:
            transcript = read_chat(cast(list[ChatMessage], line.messages))
            answer = submitted(transcript)
        if self._answer_field is not None:
            answer = self._answer(text)
        return CompletionLine(number, beginning, str(line.task_id), Submission(answer=answer, transcript=transcript))

    def _answer(self, text: bytes) -> str | None:
        assert self._answer_field is not None
        value: Any = json.loads(text).get(self._answer_field)
        return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parsed(text: bytes) -> tuple[_Line, str | None]:
    """Return the fields of a line, and the problem of an invalid field or None.

    Raises:
        BadLine: the line is not a JSON object.
    """
    try:
        return _decode(text), None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        # Again by the parser that takes NaN and halves of surrogate pairs: those are nobody's to judge here.
        fields = _object(text)
    raw = (*ADDED, "turns", "responses_create_params", "response")
    marks = {name: Raw(b"0") for name in raw if name in fields}
    try:
        line, problem = msgspec.convert({key: fields[key] for key in fields.keys() - marks.keys()}, _Line), None
    except (msgspec.ValidationError, RecursionError) as error:
        line, problem = _Line(), str(error)
    for name, mark in marks.items():
        setattr(line, name, mark)
    return line, problem


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise BadLine(f"not UTF-8: byte 0x{text[error.start]:02x} at column {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadLine(f"a line must be an object of fields, this is {text[:_SHOWN].decode(errors='replace')}")
    return cast(dict[str, Any], value)


def _is_recorded(line: _Line) -> bool:
    """Whether a line is NeMo Gym's; its rows may have a field `task_id` of their own, which means nothing here."""
    has_words = isinstance(line.completion, str) or isinstance(line.messages, list)
    return not has_words and line.responses_create_params is not UNSET and line.response is not UNSET


def _beginning(text: bytes, line: _Line) -> bytes:
    """The output line with the line's own fields, ready for more fields to be added."""
    if line.score is UNSET and line.outcome is UNSET and line.error is UNSET:
        head = text[:-1].rstrip()
        return head if head == b"{" else head + b", "
    try:
        fields = {key: bytes(value) for key, value in _decode_fields(text).items() if key not in ADDED}
    except (msgspec.DecodeError, UnicodeDecodeError):
        values: dict[str, Any] = json.loads(text)
        fields = {key: json.dumps(value).encode() for key, value in values.items() if key not in ADDED}
    return b"{" + b"".join(json.dumps(key).encode() + b": " + value + b", " for key, value in fields.items())


def _rollout(text: bytes, number: int, beginning: bytes) -> CompletionLine:
    """Parse a line that `hub export` wrote."""
    rollout = Rollout.model_validate_json(text)
    is_scorable = rollout.outcome in (Outcome.SCORED, Outcome.VERIFIER_FAILED)
    return CompletionLine(
        number,
        beginning,
        rollout.task.id,
        submission_of(rollout),
        rollout.task.split,
        rollout.seed,
        None if is_scorable else rollout.outcome,
    )


def _recorded(text: bytes, number: int, beginning: bytes) -> CompletionLine:
    """Parse a line of NeMo Gym: its task is found by its input, and the recorded response is submitted unchanged.

    Raises:
        BadLine: the line has no request or no response.
    """
    fields = _object(text)
    asked, answered = fields["responses_create_params"], fields["response"]
    if not isinstance(asked, dict) or "input" not in asked:
        raise BadLine("'responses_create_params' has no 'input', by which the task of the line is found")
    if not isinstance(answered, dict) or not isinstance(cast(dict[str, Any], answered).get("output"), list):
        raise BadLine("'response' has no 'output', so there is nothing to score")
    try:
        transcript = read_items(cast(dict[str, Any], answered)["output"])
    except ValueError:
        transcript = ()  # its verifier is given the items themselves
    submission = Submission(answer=json.dumps(answered, ensure_ascii=False), transcript=transcript)
    if isinstance(own := fields.get(COLUMN), str):  # an export of the hub's
        try:
            reference = TaskReference.parse(own)
        except ConfigError as error:
            raise BadLine(str(error)) from error
        return CompletionLine(number, beginning, reference.task_id, submission, reference.split)
    return CompletionLine(number, beginning, row_id(cast(dict[str, Any], asked)["input"]), submission)


def _quoted(text: bytes) -> bytes:
    return json.dumps(text.decode(errors="replace"), ensure_ascii=True).encode()


def _one_line(text: str) -> str:
    return one_line(text, 500)
