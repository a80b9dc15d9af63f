"""Resumes an interrupted batch; the existing output must be the beginning of what this input produces."""

import io
import json
from typing import Any

import msgspec
from msgspec import Struct

from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.completion_line import BAD_ROW, EntryReader
from rollouthub.analysis.scoring.line_files import whole_lines
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.errors import RunDirectoryError
from rollouthub.rollout import Outcome


class _Verifier(Struct, gc=False):
    name: str = ""
    digest: str = ""


class _Score(Struct, gc=False):
    reward: float
    passed: bool | None = None
    verifier: _Verifier | None = None


class _ScoredLine(Struct, gc=False):
    outcome: str
    score: _Score | None = None


_decode = msgspec.json.Decoder(_ScoredLine).decode


async def take_up(
    output: io.FileIO, name: str, source: LineSource, reader: EntryReader, tally: BatchTally, verifier_digest: str
) -> int:
    """Check existing output against the input, line by line; count its lines, cut off a torn last line, and return
    their number.

    Afterwards the source continues with the first line that has no output.

    Raises:
        RunDirectoryError: the output is not the beginning of this input's output, or another verifier scored it.
    """
    done, end = 0, 0
    for written, offset in whole_lines(output, name):
        if (line := await source.next()) is None:
            raise RunDirectoryError(f"{name} has more lines than the input; it is another input's output")
        entry = reader.read(line.raw, line.number)
        if not written.startswith(entry.beginning + b'"score": '):
            raise RunDirectoryError(
                f"{name}:{done + 1} does not come from line {line.number} of the input; "
                "resume with the input it was made from, or name another file with -o"
            )
        _count(written, f"{name}:{done + 1}", entry.task_id, tally, verifier_digest)
        done, end = done + 1, offset
    output.truncate(end)
    output.seek(end)
    tally.resumed = done
    return done


def _count(written: bytes, place: str, task_id: str, tally: BatchTally, verifier_digest: str) -> None:
    try:
        line = _decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError):
        line = _loose(written)
    if line.score is not None and line.score.verifier is not None and line.score.verifier.digest != verifier_digest:
        raise RunDirectoryError(
            f"{place} was scored by another version of the verifier ({line.score.verifier.digest}, now "
            f"{verifier_digest}); scores of both in one file would not compare. Name another file with -o"
        )
    if line.outcome == BAD_ROW:
        tally.add(task_id, None)
    elif line.score is None:
        tally.add(task_id, Outcome(line.outcome))
    else:
        tally.add(task_id, Outcome.SCORED, line.score.reward, line.score.passed)


def _loose(written: bytes) -> _ScoredLine:
    """Parse an output line whose input fields hold values outside strict JSON, such as NaN."""
    value: Any = json.loads(written)
    return msgspec.convert({"outcome": value["outcome"], "score": value["score"]}, _ScoredLine)
