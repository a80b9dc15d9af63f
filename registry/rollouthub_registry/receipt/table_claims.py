"""Checks that the rows which lists and figures are made of say what the records say, and that kept files are whole."""

from collections.abc import Iterator

from rollouthub.errors import RunDirectoryError, UnknownNameError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.store import AttemptSummary, RunReader
from rollouthub.store.record_rows import rollout_row, summary_from
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import attempt_name

_DECIDED = (Outcome.SCORED, Outcome.AGENT_FAILED)
"""An attempt with such an outcome counts for its sample, and no later one takes its place."""


class TableCheck:
    """Compares summary rows with records, and the attempts that count with the rule by which they do."""

    def __init__(self) -> None:
        self._rows, self._effective = Problems(), Problems()
        self._attempts: dict[str, list[tuple[int, Outcome, bool]]] = {}
        self._seen = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Compare one record with its row."""
        self._seen += 1
        name = attempt_name(rollout)
        if summary is None:
            self._rows.add(f"{name}: no row has its id and attempt")
            return
        self._attempts.setdefault(rollout.rollout_id, []).append((rollout.attempt, rollout.outcome, summary.effective))
        written = rollout_row(rollout, 0, summary.seq, int(summary.effective))
        expected = summary_from(written[1:-1])
        if expected != summary:
            differing = [
                field for field in AttemptSummary.__slots__ if getattr(expected, field) != getattr(summary, field)
            ]
            self._rows.add(f"{name}: the row says otherwise of {', '.join(differing)}")

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._rows:
            said = f"{counted(self._rows.count, 'row')} of run.db say otherwise than the records"
            yield self._rows.refutes("rows", said, self._seen)
        else:
            said = (
                f"the rows of run.db, which lists and figures are made of, say what {counted(self._seen, 'record')} say"
            )
            yield Claim("rows", "proven", said, self._seen)
        several = 0
        for rollout_id, attempts in self._attempts.items():
            several += len(attempts) > 1
            counting = [attempt for attempt, _, is_effective in attempts if is_effective]
            if counting != [_counting(attempts)]:
                self._effective.add(
                    f"{rollout_id}: attempt {counting} counts, and by the rule {_counting(attempts)} does"
                )
        if self._effective:
            said = "another attempt counts than the first that was scored or failed by its agent, or else the last"
            yield self._effective.refutes("attempts", said, self._seen)
        else:
            said = "no sample has several attempts"
            if several:
                said = f"of {counted(several, 'sample')} with several attempts the one counts that the rule says"
            yield Claim("attempts", "proven", said, self._seen)


def _counting(attempts: list[tuple[int, Outcome, bool]]) -> int:
    in_order = sorted(attempts)
    return next((attempt for attempt, outcome, _ in in_order if outcome in _DECIDED), in_order[-1][0])


class KeptFileCheck:
    """Checks the files in `media/` that the rollouts' artifacts name."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._wrong, self._gone = Problems(), Problems()
        self._whole: set[str] = set()
        self._rollouts = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Read the files that a record names."""
        self._rollouts += bool(rollout.artifacts)
        for artifact in rollout.artifacts:
            if artifact.digest in self._whole:
                continue
            try:
                content = self._reader.media(artifact.digest)
            except UnknownNameError:
                self._gone.add(f"{attempt_name(rollout)}: {artifact.name}")
                continue
            except RunDirectoryError as error:
                self._wrong.add(f"{attempt_name(rollout)}: {artifact.name}: {error}")
                continue
            if len(content) != artifact.bytes:
                self._wrong.add(f"{attempt_name(rollout)}: {artifact.name} has {len(content):,} bytes")
            self._whole.add(artifact.digest)

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._wrong:
            said = f"{counted(self._wrong.count, 'kept file')} are not what their digests say"
            yield self._wrong.refutes("kept_files", said, self._rollouts)
        elif self._whole:
            said = f"{counted(len(self._whole), 'kept file')} have the digests that the records name"
            yield Claim("kept_files", "proven", said, self._rollouts)
        if self._gone:
            said = f"{counted(self._gone.count, 'kept file')} that records name are gone"
            yield Claim("lost_files", "not_provable", said, self._rollouts, tuple(self._gone.examples))
