"""What `hub score FILE` does: opens the environment, scores each line, and prints progress and results."""

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from rich.text import Text

from rollouthub.analysis.scoring.batch import BatchScorer, BatchSettings
from rollouthub.analysis.scoring.batch_resume import take_up
from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.analysis.scoring.input_survey import survey
from rollouthub.analysis.scoring.line_files import STDIO, LineWriter, check_output_file, input_lines, output_file
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.cli.console import remarks, results, warn
from rollouthub.cli.score.score_options import ScoreOptions
from rollouthub.cli.score.score_view import ScoreView, print_tally, unscored_lines
from rollouthub.cli.signals import INTERRUPTED, Interruptible
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError, DataError, HubError
from rollouthub.event_loop import run_async, watched_loop
from rollouthub.models.batch_run import BATCH_CONCURRENCY, BATCHES, BatchRun
from rollouthub.models.credentials import load_credentials
from rollouthub.models.openai.batch_journal import batch_facts
from rollouthub.protocols import IDLE_AGENT, EnvironmentHost
from rollouthub.telemetry.cpu import cpu_seconds


@dataclass(frozen=True)
class ScoreOrder:
    """The arguments of `hub score`."""

    source: str
    options: ScoreOptions
    given: dict[str, Any]
    """Settings of a run, as a tree."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the environment that scores."""
        return self.given.get("set", {})

    @property
    def concurrency(self) -> int:
        """How much is scored at once: unless a number is given, what waits for batches shares them."""
        is_free = self.given.get("batch") and "concurrency" not in self.options.model_fields_set
        return BATCH_CONCURRENCY if is_free else self.options.concurrency

    def batches(self, directory: Path, note: Callable[[str], None], stop: StopSignal) -> BatchRun:
        """What its batched judges share, kept in a folder; after the stop signal only what is in flight is waited
        for.
        """
        resume = f"hub score {self.source} … --batch --resume"
        batches = BatchRun(directory, note, stop.put_off, resume, self.given.get("wait") is not False)
        stop.on_set(batches.stop_waiting)
        return batches


def score_file(order: ScoreOrder) -> int:
    """Score the lines of a file; returns the exit code."""
    if order.source != STDIO and not Path(order.source).exists():
        raise DataError("there is no such file", order.source)
    if order.options.environment is None:
        raise ConfigError("name the environment whose verifier scores the lines: add --env ENV (`hub list` shows all)")
    output = order.options.output or (STDIO if order.source == STDIO else default_output(order.source))
    if order.options.resume and STDIO in (output, order.source):
        raise ConfigError("--resume reads input and output again, which stdin and stdout do not allow; name files")
    if order.options.as_json and output == STDIO:
        raise ConfigError("--json prints its figures on stdout, where the scored lines go; name a file with -o")
    if order.given.get("batch"):
        _check_batches(order, output)
    if output != STDIO and Path(output).exists() and order.source != STDIO and Path(output).samefile(order.source):
        raise ConfigError(f"{output} is the input itself; name another file with -o")
    check_output_file(output, resume=order.options.resume)
    batch = _Batch(order, output)
    return batch.run()


def batches_of(output: str) -> Path:
    """The folder that keeps the batches of an output file."""
    return Path(f"{output}.{BATCHES}")


def _check_batches(order: ScoreOrder, output: str) -> None:
    """Refuse batches that could not be found again, or are left of another command.

    Raises:
        ConfigError: says why, and what to do.
    """
    if STDIO in (output, order.source):
        raise ConfigError("--batch keeps its batches beside the output, to collect them later; name files")
    if batches_of(output).exists() and not order.options.resume:
        raise ConfigError(
            f"{batches_of(output)} holds batches that were sent before; add --resume to collect them, or remove it"
        )


def default_output(source: str) -> str:
    """The default output file for a source: `completions.jsonl.gz` → `completions.scored.jsonl.gz`."""
    gzip = ".gz" if source.lower().endswith(".gz") else ""
    stem = source[: len(source) - len(gzip)]
    for suffix in (".jsonl", ".ndjson", ".json"):
        stem = stem.removesuffix(suffix)
    return f"{stem}.scored.jsonl{gzip}"


class _Batch:
    """The scoring of one file, from counting its lines to printing the results."""

    def __init__(self, order: ScoreOrder, output: str) -> None:
        self._order, self._output = order, output
        self._tally = BatchTally(order.options.environment or "")
        self._view = ScoreView(remarks(), order.source, self._tally.means, is_quiet=order.options.quiet)
        self._sources: list[LineSource] = []
        self._halt = StopSignal()
        self._interruptible = Interruptible(self._stop, self._view.note)
        self._seconds = self._cpu = 0.0

    def _stop(self) -> None:
        self._halt.set()
        for source in self._sources:
            source.stop()

    def run(self) -> int:
        """Score the file and print the results; returns the exit code."""
        failure: HubError | None = None
        cpu = cpu_seconds()
        with self._view:
            try:
                run_async(self._interruptible.run, self._score, self._view.refresh)
            except DataError as error:
                if not self._tally.lines:
                    raise
                failure = error  # of a later line: what was scored before it is worth its figures
        self._cpu = cpu_seconds() - cpu
        if self._seconds:
            self._show()
        if failure is not None:
            raise failure
        if self._interruptible.is_interrupted:
            if STDIO not in (self._output, self._order.source):
                remarks().print(Text(f"Go on with: hub score {self._order.source} … --resume", style="yellow"))
            return INTERRUPTED
        return 0 if self._tally.is_complete and not self._halt.is_put_off else 1

    async def _score(self) -> None:
        order = self._order
        reader = EntryReader(order.options.answer_field)
        total = await anyio.to_thread.run_sync(self._survey, reader)
        batches = order.batches(batches_of(self._output), self._view.note, self._halt)
        async with open_scorer(order, (str(order.options.environment),), batches) as opened:
            host, split = opened.environments[0].host, opened.environments[0].split
            require_transcripts(host)
            self._tally.environment = host.info.name
            settings = BatchSettings(
                split=split,
                seed=order.options.seed or 0,
                concurrency=order.concurrency,
                skip_bad=order.options.skip_bad,
                answer_field=order.options.answer_field,
                deadlines=opened.environments[0].deadlines,
            )
            with input_lines(order.source) as pieces, output_file(self._output, resume=order.options.resume) as file:
                source = LineSource(pieces, order.options.limit)
                self._sources.append(source)
                done = 0
                if order.options.resume:
                    done = await take_up(file, self._output, source, reader, self._tally, host.info.digest)
                self._view.begin(total, done)
                started, writer = time.perf_counter(), LineWriter(file, self._output)
                try:
                    scorer = BatchScorer(host, settings, source, order.source, self._tally)
                    batches.in_flight = lambda: scorer.in_flight
                    with watched_loop(self._view.note), anyio.CancelScope() as scoring:
                        self._halt.on_put_off(scoring.cancel)
                        await scorer.score(writer)
                finally:
                    self._seconds = time.perf_counter() - started
                    writer.sync()

    def _survey(self, reader: EntryReader) -> int | None:
        order = self._order
        if order.source == STDIO or not stat.S_ISREG(Path(order.source).stat().st_mode):
            return None
        with input_lines(order.source) as pieces:
            return survey(pieces, order.source, None if order.options.skip_bad else reader, order.options.limit)

    def _show(self) -> None:
        if self._order.options.as_json:
            facts = {
                "environment": self._tally.environment,
                "output": self._output,
                **self._tally.as_json(),
                "seconds": round(self._seconds, 4),
                "cpu_seconds": round(self._cpu, 4),
                **batch_facts(batches_of(self._output)),
            }
            sys.stdout.write(json.dumps(facts) + os.linesep)
        elif self._order.options.quiet:
            for line in unscored_lines(self._tally):
                warn(line)
        else:
            console = remarks() if self._output == STDIO else results()
            print_tally(console, self._tally, self._output, self._seconds, self._cpu)


def require_transcripts(host: EnvironmentHost) -> None:
    """Refuse an environment that cannot score a stored text alone.

    Raises:
        ConfigError: the environment scores whole groups, or needs the state that an episode leaves.
    """
    name = host.info.name
    if host.info.scores_groups:
        raise ConfigError(
            f"environment {name!r} scores all samples of a task together, and a stored text is one by itself: "
            f"play its tasks with `hub run {name}`; `hub score RUN` scores whole groups of a run again"
        )
    if not host.info.scores_transcripts:
        raise ConfigError(
            f"environment {name!r} scores the world an episode leaves behind, which a stored text does not have; "
            f"play its tasks with `hub run {name}` (its own class says `scores_transcripts = True` where text is all)"
        )


def open_scorer(
    order: ScoreOrder, environments: tuple[str, ...], batches: BatchRun, **more: Any
) -> AbstractAsyncContextManager[OpenPlan]:
    """Open the environments that score, hosted as in `hub run`; no agent plays in them."""
    asked: dict[str, Any] = {
        **order.given,
        "environments": environments,
        "split": order.options.split,
        "seed": order.options.seed,
        "agent": IDLE_AGENT,  # nothing is played, so that no reference is needed
        **more,
    }
    given = {key: value for key, value in asked.items() if value or key == "wait"}
    request = build_request(given, "command line")
    return open_plan(make_plan(request), load_credentials(os.environ, Path.cwd()), batches=batches)
