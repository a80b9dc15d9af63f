"""Reads a run, live or ended, for tables, reports, replays and trainers."""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcp_types import Tool
from pydantic import Field, TypeAdapter, ValidationError

from rollouthub.errors import RunDirectoryError, UnknownNameError, invalid_fields
from rollouthub.rollout import Outcome, Rollout
from rollouthub.statistics import GroupCounts, RunningMeans
from rollouthub.statistics.quantiles import QUANTILES, quantiles
from rollouthub.store.grouped_reader import BrokenRecord, has_media, read_groups, read_models
from rollouthub.store.media import read_media
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.record_rows import (
    SELECT_LIVE,
    SELECT_SUMMARY,
    SELECT_TURNS,
    Chosen,
    Row,
    rollout_from,
    rollout_without_prompts,
    summary_from,
)
from rollouthub.store.rollout_ids import full_id
from rollouthub.store.run_facts import AttemptSummary, LiveState, Resumption, RoleUsage, RunInfo, Totals
from rollouthub.store.sql_schema import MEDIA, SUMMARY_COLUMNS, TURN_BITS
from rollouthub.store.waiting_members import has_waiting

STAGES = ("queue", "setup", "agent", "model", "tool", "verify", "close", "total")
_Made = TypeVar("_Made")
_tool_list = TypeAdapter(list[Tool])
_resumptions = TypeAdapter(list[Resumption])
_Moment = Annotated[float, Field(allow_inf_nan=False, ge=-1e11, le=1e11)]
_Ending = Annotated[float | None, Field(allow_inf_nan=False, ge=-1e11, le=1e11)]
_moment, _ending = TypeAdapter[float](_Moment), TypeAdapter[float | None](_Ending)
_planned = TypeAdapter[int | None](Annotated[int | None, Field(ge=0, lt=2**53)])
_remarks = TypeAdapter(tuple[str, ...])
_resolved = TypeAdapter(dict[str, Any])


class RunReader:
    """A run, read-only. Every method sees what is committed when it is called; an iterator sees one snapshot
    throughout.
    """

    def __init__(self, source: ReadOnlySource) -> None:
        self._source = source
        self.directory = source.directory

    @property
    def info(self) -> RunInfo:
        """Facts about the run.

        Raises:
            RunDirectoryError: the stored facts are not valid.
        """
        try:
            return self._read_info()
        except (KeyError, ValueError) as error:  # ValueError is pydantic's, too
            raise RunDirectoryError(
                f"the run in {self.directory} holds what this version of rollouthub does not write ({error}); "
                "it is damaged, or not rollouthub's"
            ) from error

    def _read_info(self) -> RunInfo:
        with self._source.connect() as connection:
            meta: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
            schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
        status: Any = meta["status"]
        if status == "running" and not self._source.is_live:
            status = self._status_once_more()
        return RunInfo(
            directory=self.directory,
            run_id=meta["run_id"],
            status=status,
            created_at=_moment.validate_json(meta["created_at"]),
            finished_at=_ending.validate_json(meta.get("finished_at", "null")),
            planned=_planned.validate_json(meta.get("planned", "null")),
            bad_rows=int(meta.get("bad_rows", "0")),
            schema=schema,
            hub_version=meta["hub_version"],
            resolved=_resolved.validate_json(meta["resolved"]),
            host=meta.get("host"),
            stopped=meta.get("stopped"),
            resumptions=tuple(_resumptions.validate_json(meta.get("resumptions", "[]"))),
            remarks=_remarks.validate_json(meta.get("remarks", "[]")),
        )

    def _status_once_more(self) -> str:
        """The status of a run whose writer is gone, read again: the run may have ended in the meantime."""
        with self._source.connect() as connection:
            status: str = connection.execute("SELECT value FROM meta WHERE key = 'status'").fetchone()[0]
        return "dead" if status == "running" else status

    def summaries(
        self,
        after_seq: int = 0,
        *,
        effective: bool = True,
        order_by: str = "seq",
        descending: bool = False,
        limit: int | None = None,
    ) -> Iterator[AttemptSummary]:
        """Yield summary rows. To follow a live run, pass the highest `seq` seen and `effective=False`.

        Raises:
            UnknownNameError: `order_by` is not a column.
        """
        if order_by not in SUMMARY_COLUMNS:
            raise UnknownNameError("column", order_by, SUMMARY_COLUMNS)
        query = (
            f"{SELECT_SUMMARY} WHERE seq > ?{' AND effective' if effective else ''} "
            f"ORDER BY {order_by}{' DESC' if descending else ''}, seq LIMIT ?"
        )
        with self._source.connect() as connection:
            for row in connection.execute(query, (after_seq, -1 if limit is None else limit)):
                yield summary_from(row)

    def rollout(self, rollout_id: str, attempt: int | None = None) -> Rollout:
        """Return one record by its id, or a prefix of it that is unique; the effective attempt unless `attempt` is
        given.

        Raises:
            UnknownNameError: there is no such rollout.
            UsageError: several ids start with this prefix.
        """
        with self._source.connect() as connection:
            name = full_id(connection, rollout_id, self.directory)
            if attempt is None:
                which, values = "effective", (name,)
            else:
                which, values = "attempt = ?", (name, attempt)
            row = connection.execute(
                f"SELECT id, body FROM rollouts WHERE rollout_id = ? AND {which}", values
            ).fetchone()
            if row is None:
                kept = connection.execute("SELECT attempt FROM rollouts WHERE rollout_id = ?", (name,))
                raise UnknownNameError(f"attempt of {name}", str(attempt), (str(known) for (known,) in kept))
            return self._record(connection, *row)

    def rollout_without_prompts(self, rollout_id: str, attempt: int) -> tuple[Rollout, tuple[int | None, ...]]:
        """Return one record by its full id without its turns' prompt ids, and each turn's number of prompt ids (None
        where it has none).

        Raises:
            UnknownNameError: there is no such rollout.
        """
        with self._source.connect() as connection:
            row = connection.execute(
                "SELECT id, body FROM rollouts WHERE rollout_id = ? AND attempt = ?", (rollout_id, attempt)
            ).fetchone()
            if row is None:
                raise UnknownNameError("rollout", f"{rollout_id} (attempt {attempt})", (), f"(in {self.directory})")
            return self._record(connection, *row, make=rollout_without_prompts)

    def _record(
        self, connection: Any, row_id: int, body: str, make: Callable[[str, Iterable[Row]], _Made] = rollout_from
    ) -> _Made:
        turns = connection.execute(SELECT_TURNS, (row_id << TURN_BITS, row_id + 1 << TURN_BITS))
        try:
            return make(body, turns)
        except ValidationError as error:
            why = invalid_fields(error, most=20)
            raise RunDirectoryError(
                f"a record in {self.directory} is not what this version of rollouthub writes: {why}"
            ) from error

    def attempts(self, rollout_id: str) -> list[AttemptSummary]:
        """Every attempt at a sample, in order.

        Raises:
            UnknownNameError: there is no such sample.
        """
        with self._source.connect() as connection:
            name = full_id(connection, rollout_id, self.directory)
            rows = connection.execute(f"{SELECT_SUMMARY} WHERE rollout_id = ? ORDER BY attempt", (name,))
            return [summary_from(row) for row in rows]

    def rollouts(self, *, effective: bool = True, chosen: Chosen | None = None) -> Iterator[Rollout]:
        """Yield every record, or those of the chosen ids and attempts, by order of commits, one at a time in memory."""
        with self._source.connect() as connection:
            connection.execute("BEGIN")  # one moment for the list and for the turns of each record
            try:
                where = " WHERE effective" if effective else ""
                rows = connection.execute(f"SELECT id, body, rollout_id, attempt FROM rollouts{where} ORDER BY id")
                for row_id, body, *_ in rows if chosen is None else (row for row in rows if row[2:] in chosen):
                    yield self._record(connection, row_id, body)
            finally:
                connection.execute("ROLLBACK")

    def groups(self, *, effective: bool = True) -> Iterator[list[Rollout | BrokenRecord]]:
        """Yield every record, with one task's samples at a time in memory; a damaged record is replaced by a
        `BrokenRecord`.
        """
        with self._source.connect() as connection:
            connection.execute("BEGIN")  # one moment for the list and for the records
            try:
                yield from read_groups(connection, effective=effective)
            finally:
                connection.execute("ROLLBACK")

    def models(self) -> list[str]:
        """The models named in scored records."""
        with self._source.connect() as connection:
            return read_models(connection)

    def has_media(self) -> bool:
        """Whether any message contains media."""
        with self._source.connect() as connection:
            return has_media(connection)

    def live(self) -> list[LiveState]:
        """The attempts in flight; for a run that died, those in flight at that time."""
        with self._source.connect() as connection:
            return [LiveState(*row) for row in connection.execute(SELECT_LIVE)]

    def tools(self, digest: str) -> list[Tool]:
        """The tool schemas of a tool list.

        Raises:
            UnknownNameError: the run has no tool list with this digest.
        """
        with self._source.connect() as connection:
            row = connection.execute("SELECT definitions FROM tools WHERE digest = ?", (digest,)).fetchone()
            if row is None:
                known = connection.execute("SELECT digest FROM tools").fetchall()
                raise UnknownNameError("tool list", digest, (name for (name,) in known))
        return _tool_list.validate_json(row[0])

    def media(self, digest: str) -> bytes:
        """The bytes of an image, sound or artifact.

        Raises:
            UnknownNameError: the run has no file with this digest.
            RunDirectoryError: the file is a link or no regular file, too large or altered.
        """
        return read_media(self.directory / MEDIA, digest)

    def outcomes(self) -> dict[Outcome, int]:
        """Number of samples by outcome of their effective attempt."""
        with self._source.connect() as connection:
            rows = connection.execute("SELECT outcome, count(*) FROM rollouts WHERE effective GROUP BY outcome")
            return {Outcome(outcome): count for outcome, count in rows}

    def suspects(self) -> int:
        """Number of effective attempts with a suspect score."""
        with self._source.connect() as connection:
            (count,) = connection.execute("SELECT count(*) FROM rollouts WHERE effective AND suspect").fetchone()
            return int(count)

    def waiting(self) -> int:
        """Number of rollouts that were played and wait for their group's verdict; no other figure includes them."""
        with self._source.connect() as connection:
            if not has_waiting(connection):
                return 0
            (count,) = connection.execute("SELECT count(*) FROM waiting").fetchone()
            return int(count)

    def reward_sums(self) -> tuple[float, int, int]:
        """Over effective attempts: the sum of rewards, the number with a pass verdict, and the number that passed."""
        with self._source.connect() as connection:
            return connection.execute(
                "SELECT total(reward), count(passed), coalesce(sum(passed), 0) FROM rollouts WHERE effective"
            ).fetchone()

    def means(self, planned: int = 0) -> RunningMeans:
        """Means over effective attempts; `planned` is the number of planned samples."""
        means = RunningMeans(planned, Counter(self.outcomes()))
        means.reward_sum, means.judged, means.passed = self.reward_sums()
        return means

    def seconds(self) -> float | None:
        """Seconds from the start of the first attempt to the end of the last one; None without any."""
        with self._source.connect() as connection:
            (found,) = connection.execute("SELECT max(finished_at) - min(started_at) FROM rollouts").fetchone()
            return found

    def attempt_faults(self) -> dict[str, int]:
        """Number of broken attempts by `boundary:type` of their first fault, retried ones included."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT fault, count(*) FROM rollouts WHERE fault IS NOT NULL GROUP BY fault ORDER BY 2 DESC, 1"
                )
            )

    def fault_examples(self) -> dict[str, str]:
        """Class of fault → the message of its latest occurrence."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT fault, json_extract(body, '$.faults[0].message') FROM rollouts WHERE id IN "
                    "(SELECT max(id) FROM rollouts WHERE fault IS NOT NULL GROUP BY fault)"
                )
            )

    def totals(self) -> Totals:
        """Tokens and cost of the run, over all attempts."""
        with self._source.connect() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(sum(turns), 0), coalesce(sum(tool_calls), 0), "
                "coalesce(sum(prompt_tokens), 0), coalesce(sum(output_tokens), 0), sum(cost) FROM rollouts"
            ).fetchone()
        return Totals(*row)

    def spent(self) -> dict[str, float]:
        """Role → US dollars, over all attempts; the role of the model that plays is the empty string."""
        with self._source.connect() as connection:
            (played,) = connection.execute("SELECT total(json_extract(body, '$.cost')) FROM turns").fetchone()
        return {"": played, **{role: usage.cost or 0.0 for role, usage in self.role_usage().items()}}

    def role_usage(self, environment: str | None = None) -> dict[str, RoleUsage]:
        """Tokens and cost of the model calls made by environments (or by this one), by role, over all attempts."""
        used: dict[str, RoleUsage] = {}
        with self._source.connect() as connection:
            for path in ("$.role_calls", "$.score.judge_calls"):
                for role, *usage in connection.execute(
                    "SELECT json_extract(call.value, '$.role'), count(*), "
                    "coalesce(sum(json_extract(call.value, '$.prompt_tokens')), 0), "
                    "coalesce(sum(json_extract(call.value, '$.output_tokens')), 0), "
                    "sum(json_extract(call.value, '$.cost')) "
                    "FROM rollouts, json_each(rollouts.body, :path) AS call "
                    "WHERE :environment IS NULL OR rollouts.environment = :environment GROUP BY 1",
                    {"path": path, "environment": environment},
                ):
                    used[role] = used.get(role, RoleUsage()) + RoleUsage(*usage)
        return used

    def content_bytes(self) -> int:
        """Bytes of the records and turns, without other columns, indexes and media."""
        arrays = ("prompt_token_ids", "output_token_ids", "output_logprobs", "output_mask", "policy_versions")
        turn = " + ".join(f"coalesce(length({name}), 0)" for name in arrays)
        with self._source.connect() as connection:
            (records,) = connection.execute("SELECT total(length(CAST(body AS BLOB))) FROM rollouts").fetchone()
            (turns,) = connection.execute(f"SELECT total(length(CAST(body AS BLOB)) + {turn}) FROM turns").fetchone()
        return int(records + turns)

    def stage_quantiles(self, qs: Sequence[float] = QUANTILES) -> dict[str, tuple[float, ...]]:
        """Seconds in each stage at these quantiles (nearest rank), over effective attempts; empty without any."""
        columns = ["seconds" if stage == "total" else f"{stage}_seconds" for stage in STAGES]
        values = [array("d") for _ in STAGES]
        with self._source.connect() as connection:
            for row in connection.execute(f"SELECT {', '.join(columns)} FROM rollouts WHERE effective"):
                for column, seconds in zip(values, row, strict=True):
                    column.append(seconds)
        return {stage: quantiles(column, qs) for stage, column in zip(STAGES, values, strict=True) if column}

    def task_digests(self) -> dict[str, str]:
        """Group id → digest of its task when its first sample was played."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT group_id, json_extract(body, '$.task.digest') FROM rollouts WHERE id IN "
                    "(SELECT min(id) FROM rollouts GROUP BY group_id)"
                )
            )

    def group_counts(self) -> Iterator[GroupCounts]:
        """Counts of each task's samples, by their effective attempts."""
        planned = self.info.repeats
        with self._source.connect() as connection:
            for environment, task_id, samples, scored, passed, total, squares, judged, split in connection.execute(
                "SELECT environment, task_id, count(*), count(reward), sum(passed), total(reward), "
                "total(reward * reward), count(passed), split FROM rollouts WHERE effective "
                "GROUP BY environment, split, task_id, group_id ORDER BY min(id)"
            ):
                yield GroupCounts(
                    environment=environment,
                    task_id=task_id,
                    planned=max(planned, samples),
                    scored=scored,
                    passed=passed,
                    reward_sum=total,
                    reward_sq_sum=squares,
                    judged=judged,
                    split=split,
                )


@contextmanager
def open_run(directory: str | os.PathLike[str]) -> Generator[RunReader]:
    """Open a run for reading; nothing is written into its directory.

    Raises:
        RunDirectoryError: the directory holds no run, or this version cannot read it.
    """
    source = ReadOnlySource(Path(directory))
    try:
        with source.connect():
            pass
        yield RunReader(source)
    finally:
        source.close()
