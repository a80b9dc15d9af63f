"""Rows packed into sequences, and taken apart again."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.data_set import DataSet
from rollouthub.export.data_set_files import write_file
from rollouthub.export.formats.data_columns import Columns, Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.packing import Packing, best_fit
from rollouthub.export.recipe import Recipe
from rollouthub.store import open_run
from rollouthub.values import Float32s, Int32s
from tests.export.kept import keep, made
from tests.export.made import forked, rollout, turn

COLUMNS: Columns = [
    ("rollout_id", "text"),
    ("ids", "ids"),
    ("logprobs", "reals"),
    ("reward", "real"),
    ("notes", "jsons"),
    ("token_exact", "truth"),
]


def row_of(number: int, tokens: list[int], *, exact: bool) -> Row:
    return {
        "rollout_id": f"r{number}",
        "ids": Int32s(tokens),
        "logprobs": Float32s([-token / 64 for token in tokens]),
        "reward": number / 7,
        "notes": [{"number": number}],
        "token_exact": exact,
    }


rows_of_any_length = some.lists(
    some.tuples(some.lists(some.integers(0, 2**31 - 1), min_size=1, max_size=12), some.booleans()), max_size=30
).map(lambda drawn: [row_of(number, tokens, exact=exact) for number, (tokens, exact) in enumerate(drawn)])


@given(rows_of_any_length, some.integers(12, 40))
def test_unpacking_gives_the_rows_and_no_sequence_is_too_long(rows: list[Row], most: int) -> None:
    packing = Packing(COLUMNS, most, leaves_out=False)
    packed = list(packing.pack(rows, LeftOut()))
    unpacked = [row for each in packed for row in packing.unpack(each)]
    assert sorted(unpacked, key=lambda row: int(row["rollout_id"][1:])) == rows
    for each in packed:
        assert sum(each["seq_lengths"]) == len(each["ids"]) == len(each["logprobs"]) <= most
        assert each["position_ids"].tolist() == [place for length in each["seq_lengths"] for place in range(length)]
        assert each["token_exact"] == all(row["token_exact"] for row in packing.unpack(each))


@given(some.lists(some.integers(1, 50), max_size=60), some.integers(50, 120))
def test_no_two_sequences_would_fit_into_one(lengths: list[int], most: int) -> None:
    bins = best_fit(lengths, most)
    assert sorted(place for each in bins for place in each) == [*range(len(lengths))]
    totals = [sum(lengths[place] for place in each) for each in bins]
    assert all(total <= most for total in totals)
    assert all(one + other > most for one, other in combinations(totals, 2))


def test_the_longest_goes_first_into_the_fullest_bin_with_room() -> None:
    assert best_fit([2, 6, 3, 5, 4], 10) == [[0, 2, 3], [1, 4]]
    assert best_fit([7, 6, 3, 4], 10) == [[0, 2], [1, 3]]


def run(folder: Path) -> Path:
    return keep(
        folder,
        rollout(turn(0, [1, 2, 3], [4, 5]), sample=0, reward=1.0),
        forked(sample=1, reward=0.0),
        rollout(turn(0, [1, 2], [3]), sample=2, reward=0.5),
        repeats=3,
    )


@pytest.mark.parametrize(("form", "tokens", "ids"), [("groups", None, "token_ids"), ("sft", True, "input_ids")])
def test_packed_rows_of_a_run_are_those_that_are_not_packed(
    tmp_path: Path, form: str, tokens: bool | None, ids: str
) -> None:
    folder = run(tmp_path)
    alone, packed = made(folder, format=form, tokens=tokens), made(folder, format=form, tokens=tokens, pack=9)
    assert packed.left_out == alone.left_out
    with open_run(folder) as reader:
        packing = DataSet([reader], Recipe(format=form, tokens=tokens, pack=9)).packing
    assert packing is not None
    unpacked = [row for each in packed.rows for row in packing.unpack(each)]
    key = "rollout_id"
    assert sorted(unpacked, key=lambda row: (row[key], row[ids].tolist())) == sorted(
        alone.rows, key=lambda row: (row[key], row[ids].tolist())
    )
    assert len(packed.rows) < len(alone.rows)
    assert packed.columns[-4:] == ["position_ids", "seq_lengths", "rows", "token_exact"]


def test_a_rollout_that_is_too_long_is_an_error_or_left_out_by_name(tmp_path: Path) -> None:
    folder = run(tmp_path)
    with pytest.raises(ConfigError, match=r"a row of it has 8 tokens, and a sequence at most 7; .*too_long"):
        made(folder, format="groups", pack=7)
    found = made(folder, format="groups", pack=7, too_long="leave_out")
    assert found.left_out == {"too_long": 1}
    assert sorted(length for each in found.rows for length in each["seq_lengths"]) == [3, 5]


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ({"format": "sft", "pack": 9}, "add --tokens"),
        ({"format": "dpo", "tokens": True, "pack": 9}, "pack = 9 means nothing to dpo"),
        ({"format": "groups", "pack": 0}, "pack = 0 leaves nothing"),
        ({"format": "groups", "pack": 10**20}, "16,777,216 is the most"),
        ({"format": "groups", "too_long": "leave_out"}, "say how long"),
    ],
    ids=["words", "pairs", "none", "endless", "without"],
)
def test_what_cannot_be_packed_is_refused_in_words(tmp_path: Path, recipe: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        made(run(tmp_path), **recipe)
    with pytest.raises(UnknownNameError, match="leave_out"):
        Recipe(format="groups", pack=9, too_long="cut")  # pyright: ignore[reportArgumentType]  # as a config may say


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_files_hold_packed_rows(tmp_path: Path, form: Any) -> None:
    folder, out = run(tmp_path), tmp_path / f"packed.{form}"
    with open_run(folder) as reader:
        data_set = DataSet([reader], Recipe(format="groups", pack=9))
        assert write_file(data_set, out, form) == 3
    if form == "jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    for row in found:
        assert sum(row["seq_lengths"]) == len(row["token_ids"]) == len(row["position_ids"])
        rest = [json.loads(each) if isinstance(each, str) else each for each in row["rows"]]
        assert [set(each) >= {"rollout_id", "advantage", "prompt_length"} for each in rest] == [True] * len(rest)
