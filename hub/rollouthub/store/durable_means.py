"""Means over a run's committed records, for repeated queries: each query reads only new records."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Lock

from rollouthub.errors import RunDirectoryError
from rollouthub.rollout import Outcome
from rollouthub.statistics import RunningMeans
from rollouthub.store.read_only_source import ReadOnlySource

_NEW = "SELECT id, seq, effective, outcome, reward, passed FROM rollouts WHERE seq > ?"


class StoredMeans:
    """The same means as `RunReader.means`, updated incrementally. Blocking; a read waits for a read in another
    thread.
    """

    def __init__(self, directory: Path, planned: int = 0) -> None:
        """`planned` is the number of planned samples."""
        self._directory = directory
        self._means = RunningMeans(planned=planned)
        self._seq = self._last = 0
        self._reading = Lock()

    def read(self) -> RunningMeans:
        """Return the current means, including a resumed run's earlier rollouts.

        Raises:
            RunDirectoryError: the run does not exist (any more), or is damaged.
            StoreError: the run could not be read at this moment.
        """
        with self._reading:
            with closing(ReadOnlySource(self._directory)) as source, source.connect() as connection:
                rows = connection.execute(_NEW, (self._seq,)).fetchall()
            means = replace(self._means, outcomes=Counter(self._means.outcomes))
            seq, last = self._seq, self._last
            try:
                for row_id, row_seq, is_effective, word, reward, passed in rows:
                    outcome, verdict = Outcome(word), None if passed is None else bool(passed)
                    if is_effective:
                        means.add(outcome, reward, verdict)
                    elif row_id <= self._last:  # it was counted, and a later attempt has taken its place
                        means.withdraw(outcome, reward, verdict)
                    seq, last = max(seq, row_seq), max(last, row_id)
            except (TypeError, ValueError) as error:
                raise RunDirectoryError(f"the run in {self._directory} is damaged: {error}") from error
            self._means, self._seq, self._last = means, seq, last
            return means
