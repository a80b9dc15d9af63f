"""Comma-separated values: a row a rollout that a spreadsheet opens, with nothing in it that it would run."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome
from rollouthub.export.record_columns import typed_columns
from rollouthub.export.spreadsheet import COLUMNS, export_csv
from rollouthub.score import Component, Score
from rollouthub.store import open_run
from tests.store.records import record, write

SCORE = Score(
    reward=0.75,
    passed=True,
    components={"right": Component(value=1.0), "long": Component(value=0.5, weight=-0.5)},
    feedback='said "7",\nwell done',
)


async def exported(folder: Path, *records: Any, effective: bool = True) -> list[dict[str, str]]:
    await write(folder / "run", records)
    with open_run(folder / "run") as run:
        count = export_csv(run, folder / "out.csv", effective=effective)
    with (folder / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert len(rows) == count
    return rows


async def test_a_rollout_is_a_row_and_what_is_not_there_an_empty_cell(tmp_path: Path) -> None:
    scored, failed = await exported(
        tmp_path, record("a-0", score=SCORE, answer="7"), record("b-0", 0, Outcome.AGENT_FAILED)
    )
    assert (scored["rollout_id"], scored["reward"], scored["passed"], scored["answer"]) == ("a-0", "0.75", "true", "7")
    assert scored["feedback"] == 'said "7",\nwell done'
    assert json.loads(scored["components"]) == {"right": 1.0, "long": 0.5}
    assert (scored["started_at"], scored["total_seconds"], scored["faults"]) == ("1970-01-01 00:01:40.000", "3.0", "")
    assert (failed["outcome"], failed["reward"], failed["passed"]) == ("agent_failed", "", "")
    assert json.loads(failed["faults"])[0]["boundary"] == "agent"


FORMULAS = ('=HYPERLINK("http://example.com")', "+1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\n=1", "＝1+1", "- first")
PLAIN = ("-5", "+1.5e3", "a = b")


async def test_no_answer_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    said = [record(f"a-{number}", answer=answer) for number, answer in enumerate((*FORMULAS, *PLAIN))]
    rows = await exported(tmp_path, *said)
    assert [row["answer"] for row in rows] == [*(f"'{answer}" for answer in FORMULAS), *PLAIN]


async def test_attempts_that_others_took_the_place_of_are_there_when_asked(tmp_path: Path) -> None:
    kept = [record("a-0", 0, Outcome.MODEL_FAILED), record("a-0", 1)]
    assert [row["attempt"] for row in await exported(tmp_path, *kept)] == ["1"]
    with open_run(tmp_path / "run") as run:
        out = io.StringIO()
        assert export_csv(run, out, effective=False) == 2
    assert len(out.getvalue().splitlines()) == 3


async def test_a_run_of_nothing_has_its_columns(tmp_path: Path) -> None:
    assert await exported(tmp_path) == []
    assert (tmp_path / "out.csv").read_text() == ",".join(COLUMNS) + "\n"


def test_the_columns_are_those_of_parquet_but_for_conversations() -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    assert [name for name, _ in typed_columns(arrow, "rollouts") if name != "messages"] == list(COLUMNS)
