"""A small environment to score for, and files of lines."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rollouthub import BadRow, Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, VerifierError
from rollouthub.analysis.scoring.batch import BatchScorer, BatchSettings
from rollouthub.analysis.scoring.batch_resume import take_up
from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.analysis.scoring.line_files import LineWriter, input_lines, output_file
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.hosting import InProcessHost
from rollouthub.rollout import Outcome


class EchoConfig(EnvironmentConfig):
    """How many tasks."""

    size: int = 100


class Echo(Environment[EchoConfig]):
    """Task `test/N` wants the answer `N`; some answers trip the verifier."""

    scores_transcripts = True

    @classmethod
    def tasks(cls, config: EchoConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        for index in range(config.size):
            yield Task(Public(id=f"{split}/{index}", prompt=f"Say {index}"), Secret(answer=str(index)))

    async def verify(self, submission: Submission) -> Score:
        if submission.final == "crash":
            raise KeyError("it broke")
        if submission.final == "away":
            raise VerifierError("the judge is away", retryable=False)
        if submission.final == "seed":
            return Score(reward=float(self.seed))
        right = submission.final == self.task.secret.answer
        return Score(reward=float(right), passed=right)


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    """A file of JSON lines; text stands as it is."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read_lines(path: Path) -> list[Any]:
    """What a file of JSON lines holds."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


async def score_lines(
    source: Path,
    output: Path,
    *,
    resume: bool = False,
    limit: int | None = None,
    host: InProcessHost | None = None,
    **settings: Any,
) -> BatchTally:
    """Score a file as the command does."""
    host = host or InProcessHost("echo", Echo, EchoConfig())
    tally = BatchTally("echo")
    given = BatchSettings(split="test", **settings)
    with input_lines(str(source)) as pieces, output_file(str(output), resume=resume) as file:
        lines = LineSource(pieces, limit)
        if resume:
            await take_up(file, str(output), lines, EntryReader(given.answer_field), tally, host.info.digest)
        writer = LineWriter(file, str(output))
        try:
            await BatchScorer(host, given, lines, str(source), tally).score(writer)
        finally:
            writer.sync()
    assert tally.means.scored == tally.means.outcomes[Outcome.SCORED]
    return tally
