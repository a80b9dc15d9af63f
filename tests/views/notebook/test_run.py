"""`rollouthub.open_run`: tables of a run, finished or live."""

import sys
from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub import Outcome, Score, segments
from rollouthub.errors import ConfigError, RunDirectoryError, UnknownNameError
from rollouthub.live.follow import FilterError
from rollouthub.store import open_run as open_reader
from rollouthub.store import open_writer
from rollouthub.store.notes import NoteChange, add
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub.views.notebook import Run
from tests.store.records import RESOLVED, names_in, record, write

pyarrow: Any = pytest.importorskip("pyarrow")


@pytest.fixture
async def run(tmp_path: Path) -> Run:
    kept = [
        record("a-0", score=Score(reward=0.75, passed=True, feedback="well done"), answer="7"),
        record("b-0", 0, Outcome.MODEL_FAILED, turns=()),
        record("b-0", 1, Outcome.AGENT_FAILED),
        record("c-0", score=Score(reward=0.25)),
    ]
    await write(tmp_path / "run", kept)
    return rollouthub.open_run(str(tmp_path / "run"))


async def test_a_rollout_is_a_row_with_every_column_of_its_summary(run: Run) -> None:
    frame = run.rollouts()
    with open_reader(run.info.directory) as reader:
        expected = list(reader.summaries())
    rows = frame.to_pylist()
    assert frame.columns == list(SUMMARY_COLUMNS)
    assert len(rows) == len(frame) == 3
    for row, summary in zip(rows, expected, strict=True):
        for name in set(SUMMARY_COLUMNS) - {"started_at", "finished_at"}:
            assert row[name] == getattr(summary, name)
        assert row["finished_at"].timestamp() == summary.finished_at
    assert [str(frame.arrow.schema.field(name).type) for name in ("reward", "passed", "outcome", "started_at")] == [
        "double", "bool", "string", "timestamp[us, tz=UTC]"]  # fmt: skip


async def test_a_filter_and_columns_choose(run: Run) -> None:
    assert run.rollouts("reward < 0.5", columns=["task_id", "reward"]).to_pylist() == [
        {"task_id": "test/c", "reward": 0.25}
    ]
    assert run.rollouts(columns=["attempt"], effective=False).to_pylist() == [{"attempt": n} for n in (0, 0, 1, 0)]
    with pytest.raises(FilterError, match="did you mean 'reward'"):
        run.rollouts("rewrd < 1")
    with pytest.raises(UnknownNameError, match="did you mean 'reward'"):
        run.rollouts(columns=["rewrd"])


async def test_notes_are_on_a_rollout_in_filters_and_in_a_frame_of_their_own(run: Run) -> None:
    noted = [
        NoteChange("a-0", 0, tags=("reward hack",), star=True),
        NoteChange("a-0", 0, turn=2, comment="here\x1b[31m <b>it\nhappens"),
        NoteChange("c-0", 0, reviewed=True),
    ]
    add(run.directory, *noted, by="anna")
    run.refresh()
    assert [row["rollout_id"] for row in run.filter('tag ~ "hack" and starred').rollouts().to_pylist()] == ["a-0"]
    rows = run.notes().to_pylist()
    assert [(row["rollout_id"], row["turn"], row["kind"], row["text"], row["by"]) for row in rows] == [
        ("a-0", None, "star", None, None),
        ("a-0", None, "tag", "reward hack", None),
        ("a-0", 2, "comment", "here <b>it\nhappens", "anna"),
        ("c-0", None, "review", None, "anna"),
    ]
    assert all((row["at"] is not None) == (row["by"] is not None) for row in rows)
    assert run.notes("reviewed").to_pylist() == rows[3:]
    assert run.filter("reviewed").notes().to_pylist() == rows[3:]
    rollout = run.rollout("a-0")
    assert rollout.notes is not None and rollout.notes["starred"] is True
    page = rollout._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it
    for said in ("★ starred", "tags: reward hack", "turn 2: anna", "here &lt;b&gt;it", "happens"):
        assert said in page
    assert "\x1b" not in page and "starred" not in run.rollout("b-0")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert run.rollout("b-0").notes is None


async def test_columns_of_full_records_are_read_on_request(run: Run) -> None:
    rows = run.rollouts("passed or not effective", columns=["answer", "rollout_id", "messages"]).to_pylist()
    assert [(row["rollout_id"], row["answer"]) for row in rows] == [("a-0", "7")]
    assert list(rows[0]) == ["answer", "rollout_id", "messages"]
    assert [message["role"] for message in rows[0]["messages"]] == ["user", "assistant"] * 2


async def test_turns_calls_and_segments_are_tables_too(run: Run) -> None:
    turns = run.turns("reward > 0", columns=["rollout_id", "turn", "output_token_ids"]).to_pylist()
    assert [(row["rollout_id"], row["turn"]) for row in turns] == [("a-0", 0), ("a-0", 1), ("c-0", 0), ("c-0", 1)]
    assert turns[0]["output_token_ids"] == [0, 1, 2, 3]
    (call, *others) = run.tool_calls().to_pylist()
    assert (call["name"], call["arguments"], call["result"]) == ("calculate", '{"expression": "1 + 2"}', "3")
    assert (call["is_error"], call["seconds"], len(others)) == (False, 0.1, 2)
    rows = run.segments('id == "a-0"').to_pylist()
    assert [row["token_ids"] for row in rows] == [
        segment.token_ids.tolist() for segment in segments(run.rollout("a-0"))
    ]
    assert run.turns("reward > 9").columns == run.turns().columns


async def test_a_record_is_had_in_full(run: Run) -> None:
    with open_reader(run.info.directory) as reader:
        for attempt in (0, 1):
            expected = reader.rollout("b-0", attempt)
            assert run.rollout("b-0", attempt).model_dump() == expected.model_dump()
    assert isinstance(run.rollout("a"), rollouthub.Rollout)
    with pytest.raises(UnknownNameError, match="no rollout"):
        run.rollout("z-9")


async def test_a_summary_says_what_the_run_comes_to(run: Run) -> None:
    assert run.summary.as_json()["mean_reward"] == 0.5
    assert repr(run).endswith("run': finished, 3 rollouts>")


async def test_a_live_run_is_taken_in_on_refresh(tmp_path: Path) -> None:
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        with rollouthub.open_run(tmp_path / "run") as run:
            assert len(run.rollouts()) == len(run.turns()) == 0
            await writer.add(record("a-0"))
            await writer.flush()
            assert len(run.rollouts()) == 0
            assert len(run.refresh().rollouts()) == 1
            assert (run.info.status, len(run.turns())) == ("running", 2)


async def test_pandas_and_arrow_take_a_frame_as_it_is(run: Run) -> None:
    frame = run.rollouts(columns=["reward", "passed", "turns", "task_id"])
    pandas = frame.to_pandas()
    assert pandas["reward"].isna().tolist() == [False, True, False]
    assert str(pandas.dtypes["turns"]) == "int64[pyarrow]"
    taken = pyarrow.table(frame)
    assert taken.equals(frame.arrow)
    address = taken["reward"].chunk(0).buffers()[1].address
    assert address == frame.arrow["reward"].chunk(0).buffers()[1].address  # not a copy


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
async def test_a_package_that_is_missing_is_named(
    package: str, method: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = run.rollouts()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"pip install {package}"):
        getattr(frame, method)()


async def test_without_arrow_all_but_tables_works(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.compute", None)
    with pytest.raises(ConfigError, match=r"\[data\]"):
        run.rollouts()
    assert run.rollout("a-0").reward == 0.75
    assert run.summary.scored == 2


async def test_nothing_is_written_beside_the_run(run: Run) -> None:
    before = names_in(run.info.directory)
    run.turns()
    run.close()
    assert names_in(run.info.directory) == before


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="holds no run"):
        rollouthub.open_run(tmp_path)
