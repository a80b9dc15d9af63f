"""Reading a run, live or later: everything a table, a report, a replay or a trainer asks of it."""

import difflib
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from mcp_types import Tool
from pydantic import Field, TypeAdapter, ValidationError

from rollouthub.errors import RunDirectoryError, UnknownNameError, UsageError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.statistics import GroupCounts, RunningMeans
from rollouthub.statistics.quantiles import QUANTILES, quantiles
from rollouthub.store.grouped_reader import BrokenRecord, has_media, read_groups, read_models
from rollouthub.store.media import media_name
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.record_rows import (
    SELECT_LIVE,
    SELECT_SUMMARY,
    SELECT_TURNS,
    Row,
    rollout_from,
    rollout_without_prompts,
    summary_from,
)
from rollouthub.store.run_facts import AttemptSummary, LiveState, Resumption, RoleUsage, RunInfo, Totals
from rollouthub.store.sql_schema import MEDIA, SUMMARY_COLUMNS, TURN_BITS

STAGES = ("queue", "setup", "agent", "model", "tool", "verify", "close", "total")
_SUGGESTIONS = 250
_Made = TypeVar("_Made")
_tool_list = TypeAdapter(list[Tool])
_resumptions = TypeAdapter(list[Resumption])
_Moment = Annotated[float, Field(allow_inf_nan=False, ge=-1e11, le=1e11)]
_Ending = Annotated[float | None, Field(allow_inf_nan=False, ge=-1e11, le=1e11)]
_moment, _ending = TypeAdapter[float](_Moment), TypeAdapter[float | None](_Ending)
_planned = TypeAdapter[int | None](Annotated[int | None, Field(ge=0, lt=2**53)])
_resolved = TypeAdapter(dict[str, Any])


class RunReader:
    """A run, read-only. Every method sees what is committed at that moment; iterators see one moment throughout."""

    def __init__(self, source: ReadOnlySource) -> None:
        self._source = source
        self.directory = source.directory

    @property
    def info(self) -> RunInfo:
        """Facts about the run.

        Raises:
            RunDirectoryError: they are not what a writer of ours keeps.
        """
        try:
            return self._read_info()
        except ValidationError as error:
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
        )

    def _status_once_more(self) -> str:
        """The status of a run whose writer is gone: it may have ended between two looks."""
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
        """Rows for a table. To follow a live run, ask with the highest `seq` seen and `effective=False`.

        Raises:
            UnknownNameError: `order_by` is no column.
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
        """One record, by its id or the beginning of it; the effective attempt unless one is named.

        Raises:
            UnknownNameError: there is none.
            UsageError: several begin so.
        """
        with self._source.connect() as connection:
            name = self._full_id(connection, rollout_id)
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
        """One record by its whole id, without its turns' prompt ids; and how many each turn has, None without any.

        Raises:
            UnknownNameError: there is none.
        """
        with self._source.connect() as connection:
            row = connection.execute(
                "SELECT id, body FROM rollouts WHERE rollout_id = ? AND attempt = ?", (rollout_id, attempt)
            ).fetchone()
            if row is None:
                raise UnknownNameError("rollout", f"{rollout_id} (attempt {attempt})", (), f"(in {self.directory})")
            return self._record(connection, *row, make=rollout_without_prompts)

    def _full_id(self, connection: Any, wanted: str) -> str:
        found = connection.execute(
            "SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id >= ? AND rollout_id < ? "
            "ORDER BY rollout_id LIMIT 4",
            (wanted, wanted + "\U0010ffff"),
        ).fetchall()
        names: list[str] = [name for (name,) in found]
        if wanted in names or (wanted and len(names) == 1):
            return wanted if wanted in names else names[0]
        if wanted and names:
            listing = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
            raise UsageError(f"{len(names[:3])} or more rollouts begin with {wanted!r}: {listing}; give more of the id")
        near = connection.execute(
            "SELECT * FROM (SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id >= ?1 ORDER BY 1 LIMIT ?2) UNION "
            "SELECT * FROM (SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id < ?1 ORDER BY 1 DESC LIMIT ?2)",
            (wanted, _SUGGESTIONS),
        )
        names = [name for (name,) in near]
        # Of thousands of ids the nearest three say enough.
        close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.0)
        raise UnknownNameError("rollout", wanted, close, f"(in {self.directory})")

    def _record(
        self, connection: Any, row_id: int, body: str, make: Callable[[str, Iterable[Row]], _Made] = rollout_from
    ) -> _Made:
        turns = connection.execute(SELECT_TURNS, (row_id << TURN_BITS, row_id + 1 << TURN_BITS))
        try:
            return make(body, turns)
        except ValidationError as error:
            raise RunDirectoryError(
                f"a record in {self.directory} is not what this version of rollouthub writes: {error}"
            ) from error

    def attempts(self, rollout_id: str) -> list[AttemptSummary]:
        """Every attempt at a sample, in order.

        Raises:
            UnknownNameError: there is no such sample.
        """
        with self._source.connect() as connection:
            name = self._full_id(connection, rollout_id)
            rows = connection.execute(f"{SELECT_SUMMARY} WHERE rollout_id = ? ORDER BY attempt", (name,))
            return [summary_from(row) for row in rows]

    def rollouts(self, *, effective: bool = True) -> Iterator[Rollout]:
        """Every record, in the order they were committed, one at a time in memory."""
        with self._source.connect() as connection:
            connection.execute("BEGIN")  # one moment for the list and for the turns of each record
            try:
                where = " WHERE effective" if effective else ""
                for row_id, body in connection.execute(f"SELECT id, body FROM rollouts{where} ORDER BY id"):
                    yield self._record(connection, row_id, body)
            finally:
                connection.execute("ROLLBACK")

    def groups(self, *, effective: bool = True) -> Iterator[list[Rollout | BrokenRecord]]:
        """Every record, a task's samples at a time in memory; a damaged one is told in its place."""
        with self._source.connect() as connection:
            connection.execute("BEGIN")  # one moment for the list and for the records
            try:
                yield from read_groups(connection, effective=effective)
            finally:
                connection.execute("ROLLBACK")

    def models(self) -> list[str]:
        """The models that scored records name."""
        with self._source.connect() as connection:
            return read_models(connection)

    def has_media(self) -> bool:
        """Whether a message anywhere holds a picture, a sound or a file."""
        with self._source.connect() as connection:
            return has_media(connection)

    def live(self) -> list[LiveState]:
        """The attempts in flight; of a run that died, those that were."""
        with self._source.connect() as connection:
            return [LiveState(*row) for row in connection.execute(SELECT_LIVE)]

    def tools(self, digest: str) -> list[Tool]:
        """The schemas of a tool list.

        Raises:
            UnknownNameError: the run has no list of this digest.
        """
        with self._source.connect() as connection:
            row = connection.execute("SELECT definitions FROM tools WHERE digest = ?", (digest,)).fetchone()
            if row is None:
                known = connection.execute("SELECT digest FROM tools").fetchall()
                raise UnknownNameError("tool list", digest, (name for (name,) in known))
        return _tool_list.validate_json(row[0])

    def media(self, digest: str) -> bytes:
        """The bytes of a picture, sound or artifact.

        Raises:
            UnknownNameError: the run has none of this digest.
        """
        try:
            return (self.directory / MEDIA / media_name(digest)).read_bytes()
        except (ValueError, FileNotFoundError):
            raise UnknownNameError("medium", digest, ()) from None

    def outcomes(self) -> dict[Outcome, int]:
        """How the samples ended, by their effective attempts."""
        with self._source.connect() as connection:
            rows = connection.execute("SELECT outcome, count(*) FROM rollouts WHERE effective GROUP BY outcome")
            return {Outcome(outcome): count for outcome, count in rows}

    def suspects(self) -> int:
        """How many effective attempts have a suspect score."""
        with self._source.connect() as connection:
            (count,) = connection.execute("SELECT count(*) FROM rollouts WHERE effective AND suspect").fetchone()
            return int(count)

    def reward_sums(self) -> tuple[float, int, int]:
        """Over effective attempts: the sum of rewards, how many have a verdict, and how many passed."""
        with self._source.connect() as connection:
            return connection.execute(
                "SELECT total(reward), count(passed), coalesce(sum(passed), 0) FROM rollouts WHERE effective"
            ).fetchone()

    def means(self, planned: int = 0) -> RunningMeans:
        """Over effective attempts; `planned` is how many samples the run is to play."""
        means = RunningMeans(planned, Counter(self.outcomes()))
        means.reward_sum, means.judged, means.passed = self.reward_sums()
        return means

    def attempt_faults(self) -> dict[str, int]:
        """How many attempts broke, by `boundary:type` of their first fault; retried ones count."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT fault, count(*) FROM rollouts WHERE fault IS NOT NULL GROUP BY fault ORDER BY 2 DESC, 1"
                )
            )

    def fault_examples(self) -> dict[str, str]:
        """What the latest fault of each of these classes said."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT fault, json_extract(body, '$.faults[0].message') FROM rollouts WHERE id IN "
                    "(SELECT max(id) FROM rollouts WHERE fault IS NOT NULL GROUP BY fault)"
                )
            )

    def totals(self) -> Totals:
        """What the run has used, over all attempts."""
        with self._source.connect() as connection:
            row = connection.execute(
                "SELECT count(*), coalesce(sum(turns), 0), coalesce(sum(tool_calls), 0), "
                "coalesce(sum(prompt_tokens), 0), coalesce(sum(output_tokens), 0), sum(cost) FROM rollouts"
            ).fetchone()
        return Totals(*row)

    def spent(self) -> dict[str, float]:
        """US dollars each role has cost, over all attempts; the model that plays is the role of no name."""
        with self._source.connect() as connection:
            (played,) = connection.execute("SELECT total(json_extract(body, '$.cost')) FROM turns").fetchone()
        return {"": played, **{role: usage.cost or 0.0 for role, usage in self.role_usage().items()}}

    def role_usage(self, environment: str | None = None) -> dict[str, RoleUsage]:
        """What the calls that environments, or one of them, made themselves have used, by role, over all attempts."""
        used: dict[str, RoleUsage] = {}
        with self._source.connect() as connection:
            for path in ("$.role_calls", "$.score.judge_calls"):
                for role, *usage in connection.execute(
                    "SELECT json_extract(call.value, '$.role'), count(*), "
                    "coalesce(sum(json_extract(call.value, '$.prompt_tokens')), 0), "
                    "coalesce(sum(json_extract(call.value, '$.output_tokens')), 0), "
                    "sum(json_extract(call.value, '$.cost')) "
                    "FROM rollouts, json_each(rollouts.body, ?1) AS call "
                    "WHERE ?2 IS NULL OR rollouts.environment = ?2 GROUP BY 1",
                    (path, environment),
                ):
                    used[role] = used.get(role, RoleUsage()) + RoleUsage(*usage)
        return used

    def content_bytes(self) -> int:
        """Bytes of the records and turns themselves, without the columns and indexes beside them, and without media."""
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
        """The digest of each group's task, as it was when its first sample was played."""
        with self._source.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT group_id, json_extract(body, '$.task.digest') FROM rollouts WHERE id IN "
                    "(SELECT min(id) FROM rollouts GROUP BY group_id)"
                )
            )

    @property
    def repeats(self) -> int:
        """How many samples of each task were planned; 1 where the run does not say."""
        request: Any = self.info.resolved.get("request")
        repeats: Any = cast(dict[str, Any], request).get("repeats") if isinstance(request, dict) else None
        return repeats if isinstance(repeats, int) else 1

    def group_counts(self) -> Iterator[GroupCounts]:
        """Each task's samples, counted by their effective attempts."""
        planned = self.repeats
        with self._source.connect() as connection:
            for environment, task_id, samples, scored, passed, total, squares, judged in connection.execute(
                "SELECT environment, task_id, count(*), count(reward), sum(passed), total(reward), "
                "total(reward * reward), count(passed) FROM rollouts WHERE effective "
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
                )


@contextmanager
def open_run(directory: Path) -> Generator[RunReader]:
    """Open a run to read it; nothing is written into its directory.

    Raises:
        RunDirectoryError: there is no run there, or none that this version can read.
    """
    source = ReadOnlySource(directory)
    try:
        with source.connect():
            pass
        yield RunReader(source)
    finally:
        source.close()
