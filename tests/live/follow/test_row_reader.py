"""What rewards are made of is read when it is asked for."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub import Outcome, Score
from rollouthub.errors import RunDirectoryError
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.score import Component
from tests.store.records import conversation, record, write


async def test_the_components_of_some_rows_are_read(tmp_path: Path) -> None:
    parts = {"tests": Component(value=1.0, weight=0.5), "style": Component(value=0.25)}
    made = [
        record("a-0", score=Score(reward=0.75, components=parts), turns=()),
        record("b-0", turns=()),
        record("c-0", 0, Outcome.MODEL_FAILED, turns=()),
    ]
    await write(tmp_path / "run", made)
    reader = RowReader(tmp_path / "run")
    assert reader.components([1, 2, 3, 99]) == {1: {"tests": 1.0, "style": 0.25}, 2: {}, 3: {}}
    assert reader.components([]) == {}
    reader.close()
    assert reader.components([1]) == {}


@pytest.mark.parametrize("parts", ["[1, 2]", '{"a": {"value": "w"}}', '{"a": {}}', '{"a": {"value": 1e999}}', "7"])
async def test_what_are_no_components_are_left_out(parts: str, tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0", turns=())])
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection, connection:
        connection.execute(
            "UPDATE rollouts SET body = json_object('score', json_object('components', json(?)))", (parts,)
        )
    reader = RowReader(tmp_path / "run")
    assert reader.components([1]) == {1: {}}
    reader.close()


def test_where_there_is_no_run_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError):
        RowReader(tmp_path / "none").components([1])


async def test_the_end_of_a_long_rollout_is_read_without_the_rest_of_it(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("a-0", turns=conversation(9)), record("b-0", turns=conversation(2))])
    reader = RowReader(tmp_path / "run")
    found = reader.ending(1, 3)
    assert found is not None and [turn.index for turn in found.turns] == [6, 7, 8]
    assert found.reward == 1.0 and found.turns[0].output_token_ids is None
    short = reader.ending(2, 3)
    assert short is not None and short.rollout_id == "b-0" and len(short.turns) == 2
    assert reader.ending(99, 3) is None
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection, connection:
        connection.execute("UPDATE rollouts SET body = '{' WHERE id = 1")
    with pytest.raises(RunDirectoryError, match="damaged"):
        reader.ending(1, 3)
    reader.close()
