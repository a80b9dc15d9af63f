"""Parquet: columns that others read, streamed in row groups, complete or not at all."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Message, Outcome, ToolRequest
from rollouthub.errors import ConfigError
from rollouthub.export import parquet as exporting
from rollouthub.export.parquet import Table, export_parquet
from rollouthub.rollout import EnvironmentRef
from rollouthub.score import Component, Score, VerifierRef
from rollouthub.store import open_run
from tests.store.records import conversation, names_in, record, write

parquet: Any = pytest.importorskip("pyarrow.parquet")

SCORE = Score(
    reward=0.75,
    passed=True,
    components={"right": Component(value=1.0), "long": Component(value=0.5, weight=-0.5)},
    metrics={"steps": 3.0},
    feedback="well done",
    verifier=VerifierRef(name="arithmetic", version="1", digest="sha256:1"),
)


async def exported(folder: Path, table: Table = "rollouts", *, effective: bool = True) -> list[dict[str, Any]]:
    kept = [
        record("a-0", score=SCORE, answer="7"),
        record("b-0", 0, Outcome.MODEL_FAILED, turns=()),
        record("b-0", 1, Outcome.AGENT_FAILED),
    ]
    await write(folder / "run", kept)
    with open_run(folder / "run") as run:
        count = export_parquet(run, folder / "out.parquet", table, effective=effective)
    rows = parquet.read_table(folder / "out.parquet").to_pylist()
    assert len(rows) == count
    return rows


async def test_a_rollout_is_a_row_of_typed_columns(tmp_path: Path) -> None:
    scored, failed = await exported(tmp_path)
    assert (scored["rollout_id"], scored["reward"], scored["passed"], scored["answer"]) == ("a-0", 0.75, True, "7")
    assert scored["components"] == [
        {"name": "right", "value": 1.0, "weight": 1.0},
        {"name": "long", "value": 0.5, "weight": -0.5},
    ]
    assert scored["metrics"] == [{"name": "steps", "value": 3.0}]
    assert (scored["turns"], scored["tool_calls"], scored["cost"], scored["verifier"]) == (2, 1, 1.0, "arithmetic")
    assert [message["role"] for message in scored["messages"]] == ["user", "assistant", "user", "assistant"]
    assert scored["messages"][1]["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "calculate", "arguments": "{}"}}
    ]
    assert scored["started_at"].timestamp() == 100.0
    assert (failed["outcome"], failed["reward"], failed["passed"], failed["attempt"]) == ("agent_failed", None, None, 1)
    assert failed["faults"][0]["boundary"] == "agent"


async def test_a_row_names_the_bytes_of_the_environment_it_was_played_in(tmp_path: Path) -> None:
    installed = EnvironmentRef(
        name="lab/coins", version="1", digest="sha256:0", bundle="sha256:b", dependencies="sha256:d"
    )
    await write(tmp_path / "run", [record("a-0", environment=installed), record("b-0")])
    with open_run(tmp_path / "run") as run:
        export_parquet(run, tmp_path / "out.parquet", "rollouts")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["environment_bundle"], row["environment_dependencies"]) for row in rows] == [
        ("sha256:b", "sha256:d"),
        (None, None),
    ]


async def test_other_attempts_come_on_request(tmp_path: Path) -> None:
    rows = await exported(tmp_path, effective=False)
    assert [(row["rollout_id"], row["attempt"]) for row in rows] == [("a-0", 0), ("b-0", 0), ("b-0", 1)]


async def test_a_turn_is_a_row_with_its_tokens(tmp_path: Path) -> None:
    rows = await exported(tmp_path, "turns")
    turns = conversation(2)
    assert [(row["rollout_id"], row["turn"]) for row in rows] == [("a-0", 0), ("a-0", 1), ("b-0", 0), ("b-0", 1)]
    for row, turn in zip(rows, (*turns, *turns), strict=True):
        assert turn.prompt_token_ids is not None
        assert row["prompt_token_ids"] == turn.prompt_token_ids.tolist()
        assert row["output_logprobs"] == [-0.5] * 4
        assert row["output_mask"] is None
    types = {field.name: str(field.type.value_type) for field in parquet.read_schema(tmp_path / "out.parquet")
             if field.name in ("prompt_token_ids", "output_logprobs")}  # fmt: skip
    assert types == {"prompt_token_ids": "int32", "output_logprobs": "float"}


async def test_turns_without_tokens_have_none(tmp_path: Path) -> None:
    bare = [turn.model_copy(update={"prompt_token_ids": None}) for turn in conversation(1)]
    await write(tmp_path / "run", [record("a-0", turns=tuple(bare)), record("b-0")])
    with open_run(tmp_path / "run") as run:
        export_parquet(run, tmp_path / "out.parquet", "turns")
    ids = parquet.read_table(tmp_path / "out.parquet")["prompt_token_ids"].to_pylist()
    assert [None if row is None else len(row) for row in ids] == [None, 10, 16]


async def test_a_segment_is_a_training_row(tmp_path: Path) -> None:
    rows = await exported(tmp_path, "segments")
    for row in rows:
        lengths = {len(row[name]) for name in ("token_ids", "loss_mask", "logprobs", "turn_ids", "versions")}
        assert len(lengths) == 1
        assert sum(row["loss_mask"]) > 0
    assert rows[0]["reward"] == 0.75


@pytest.mark.parametrize("table", ["rollouts", "turns", "segments"])
async def test_datasets_and_pandas_read_every_table(table: Table, tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")  # it takes seconds to load
    rows = await exported(tmp_path, table)
    found = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"), cache_dir=str(tmp_path / "cache"))
    assert found["rollout_id"][:] == [row["rollout_id"] for row in rows]
    assert parquet.read_table(tmp_path / "out.parquet").to_pandas()["reward"][0] == 0.75


async def test_row_groups_bound_what_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_GROUP_ROWS", 4)
    await write(tmp_path / "run", [record(f"a{index}-0") for index in range(10)])
    with open_run(tmp_path / "run") as run:
        export_parquet(run, tmp_path / "out.parquet")
    assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3


async def test_odd_text_is_kept(tmp_path: Path) -> None:
    said = Message(role="assistant", content="é\n\0💥", tool_requests=(ToolRequest(id="", name="x", arguments="{"),))
    turn = conversation(1)[0].model_copy(update={"response": said})
    await write(tmp_path / "run", [record("a-0", turns=(turn,))])
    with open_run(tmp_path / "run") as run:
        export_parquet(run, tmp_path / "out.parquet")
    (row,) = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["messages"][-1]["content"] == "é\n\0💥"


async def test_a_failed_export_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(tmp_path / "run", [record("a-0")])
    with open_run(tmp_path / "run") as run:
        with pytest.raises(ConfigError, match="there is no folder"):
            export_parquet(run, tmp_path / "missing" / "out.parquet")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ConfigError, match=r"\[data\]"):
            export_parquet(run, tmp_path / "out.parquet")
    assert names_in(tmp_path) == ["run"]
