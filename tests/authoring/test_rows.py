import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow
from rollouthub.authoring.rows import Row, RowSource
from rollouthub.errors import ConfigError, DataError, UnknownNameError

ROWS = [{"problem": "1+1", "answer": "2"}, {"problem": "2+2", "answer": "4"}]


def write(path: Path, *lines: str | dict[str, Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def read(path: Path | str, split: str = "test", **settings: str) -> list[tuple[str, Row] | BadRow]:
    return list(RowSource(str(path), **settings).rows(split))


def ids(rows: Iterable[tuple[str, Row] | BadRow]) -> list[str]:
    return [row[0] for row in rows if not isinstance(row, BadRow)]


def errors(rows: Iterable[tuple[str, Row] | BadRow]) -> list[str]:
    return [str(row.error) for row in rows if isinstance(row, BadRow)]


def test_a_bare_file_is_the_split_test_and_its_rows_are_numbered_from_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "sums.jsonl", *ROWS)
    assert RowSource(str(path)).splits() == ("test",)
    assert ids(read(path)) == ["test/0", "test/1"]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]  # it has none

    table: Any = pyarrow
    lines, array = "\n".join(map(json.dumps, ROWS)), json.dumps(ROWS, indent=2)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.json").write_text(array)
    (tmp_path / "c.json").write_text(lines)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(array.encode()))
    parquet.write_table(table.Table.from_pylist(ROWS), tmp_path / "f.parquet")
    for path in tmp_path.iterdir():
        assert [dict(row[1].values) for row in read(path) if not isinstance(row, BadRow)] == ROWS, path.name


@pytest.mark.parametrize("column", ["id", "task_id", "unique_id"])
def test_a_rows_own_id_is_the_tasks(tmp_path: Path, column: str) -> None:
    path = write(tmp_path / "a.jsonl", {column: "first"}, {column: 7}, {column: None}, {"other": 1})
    assert ids(read(path)) == ["first", "7", "test/2", "test/3"]


def test_bad_rows_keep_their_index_so_that_ids_do_not_shift(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ROWS[0], "{broken", "", "[1]", ROWS[1])
    rows = read(path)
    assert ids(rows) == ["test/0", "test/3"]
    assert errors(rows) == [
        f"{path}:2: not JSON: Expecting property name enclosed in double quotes at column 2",
        f"{path}:4: a row must be an object of columns, this is an array",
    ]


def test_a_line_that_is_not_utf8_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n{"a": "\xc3\xa9"}\n')
    rows = read(path)
    assert errors(rows) == [f"{path}:1: not UTF-8: byte 0xff at column 8"]
    assert ids(rows) == ["test/1"]


@pytest.mark.parametrize("line", ['{"a": NaN}', "[" * 100_000, "null", '"text"', "{} {}"])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.jsonl", ROWS[0], line)
    assert errors(read(path))[0].startswith(f"{path}:2: ")


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "x"}\n')
    assert ids(read(path)) == ["x"]


def test_elements_of_an_array_know_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n  {"a": 1},\n\n  {"a":\n 2}, {"a": 3},\n  7\n]\n')
    rows = read(path)
    assert [row[1].line for row in rows if not isinstance(row, BadRow)] == [2, 4, 5]
    assert errors(rows) == [f"{path}:6: a row must be an object of columns, this is the value 7"]


def test_an_array_broken_half_way_gives_its_first_rows_then_says_where_it_broke(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n{"a": 1},\n{"a": 2}\n{"a": 3}]')
    rows = RowSource(str(path)).rows("test")
    assert ids([next(rows)]) == ["test/0"]
    with pytest.raises(DataError, match=r"a\.json:4: not JSON: .*row 1, and nothing after it can be read"):
        list(rows)


def test_a_column_that_is_missing_is_named_with_those_there_are_and_how_to_map_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"problems": "1+1", "answer": "2"})
    row = read(path)[0]
    assert not isinstance(row, BadRow)
    with pytest.raises(DataError) as failure:
        row[1].named(None, ("problem",), "problem")
    assert str(failure.value) == (
        f"{path}:1: missing column 'problem'; did you mean 'problems'? The columns are: problems, answer. "
        "Name the right one with `--set problem=problems`."
    )


def test_a_column_that_serves_another_purpose_is_not_suggested(tmp_path: Path) -> None:
    row = read(write(tmp_path / "a.jsonl", {"question": "1+1"}))[0]
    assert not isinstance(row, BadRow)
    with pytest.raises(DataError, match=r"missing column 'solution'\. The columns are: question\. .*answer=COLUMN"):
        row[1].named(None, ("solution",), "answer", taken=("question",))


def test_text_that_is_no_unicode_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "a \\ud83e\\udd84"}\n{"question": "half of one: \\ud83e"}\n')
    rows = read(path)
    assert ids(rows) == ["test/0"]
    assert errors(rows) == [f"{path}:2: not Unicode: a string holds half of a surrogate pair, \\ud83e"]


def test_a_named_id_column_is_required_of_every_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"key": "x"}, {"kez": "y"}, {"key": []})
    rows = read(path, id_column="key")
    assert ids(rows) == ["x"]
    assert "a.jsonl:2: missing column 'key'; did you mean 'kez'?" in errors(rows)[0]
    assert "a.jsonl:3: column 'key' holds no id, but []" in errors(rows)[1]


def test_an_id_that_repeats_is_a_bad_row_naming_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"id": "x"}, {"id": "y"}, {"id": "x"})
    rows = read(path)
    assert ids(rows) == ["x", "y"]
    assert errors(rows) == [
        f"{path}:3: the id 'x' repeats that of line 1; name another column with `--set id_column=…`"
    ]


def test_a_folder_has_a_split_per_file(tmp_path: Path) -> None:
    for name in ("train.jsonl", "dev.json", "test.jsonl", "notes.txt"):
        write(tmp_path / name, ROWS[0])
    source = RowSource(str(tmp_path))
    assert source.splits() == ("test", "dev", "train")
    assert ids(source.rows("dev")) == ["dev/0"]
    with pytest.raises(UnknownNameError, match="did you mean 'dev'"):
        next(source.rows("dve"))


def test_prefixed_test_files_and_the_only_training_file_are_splits_of_their_names(tmp_path: Path) -> None:
    for name in ("train_aime.json", "test_aime.json", "test_amc.json"):
        write(tmp_path / name, ROWS[0])
    assert RowSource(str(tmp_path)).splits() == ("aime", "amc", "train")


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "test.json", ROWS[0])
    write(tmp_path / "test.jsonl", ROWS[0])
    with pytest.raises(ConfigError, match="both split 'test'"):
        RowSource(str(tmp_path)).splits()


def test_a_split_column_divides_one_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"part": "train"}, {"part": "test"}, {"x": 1}, {"part": "train"})
    source = RowSource(str(path), split_column="part")
    rows = list(source.rows("train"))
    assert ids(rows) == ["train/0", "train/3"]
    assert "a.jsonl:3: missing column 'part'" in errors(rows)[0]


def test_the_splits_of_a_split_column_are_those_its_rows_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"part": "train"}, {"part": "test"}, {"part": "train"})
    assert RowSource(str(path), split_column="part").splits() == ("test", "train")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match="holds no rows"):
        read(path)


def test_a_file_that_is_missing_or_of_no_known_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file or folder"):
        read(tmp_path / "absent.jsonl")
    with pytest.raises(ConfigError, match="is written 'hf:princeton-nlp/SWE-bench_Verified'"):
        read(Path("princeton-nlp/SWE-bench_Verified"))
    with pytest.raises(ConfigError, match=r"must end in \.jsonl"):
        read(write(tmp_path / "a.csv", "a,b"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no data file"):
        RowSource(str(tmp_path / "empty")).splits()


@pytest.mark.parametrize("content", [b"not gzip at all", gzip.compress(b'{"a": 1}\n' * 1000, mtime=0)[:-20]])
def test_a_damaged_gzip_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.jsonl\.gz: the gzip file is damaged"):
        read(path)


def test_a_damaged_parquet_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match=r"a\.parquet: the Parquet file cannot be read"):
        read(path)


def test_a_hugging_face_name_must_name_something() -> None:
    with pytest.raises(ConfigError, match="name the data set"):
        RowSource("hf:").splits()


def test_a_data_set_that_cannot_be_had_says_how_to_give_a_local_copy() -> None:
    with pytest.raises(ConfigError, match="--set data=PATH"):
        RowSource("hf:./no/such/place").splits()


def test_a_local_folder_reads_as_a_hugging_face_data_set(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="datasets is not installed")
    write(tmp_path / "train.jsonl", *ROWS)
    source = RowSource(f"hf:{tmp_path}")
    assert source.splits() == ("train",)
    assert ids(source.rows("train")) == ["train/0", "train/1"]


def test_the_real_files_load_as_they_are(real_data: Path) -> None:
    source = RowSource(str(real_data / "deepscaler"))
    assert source.splits() == ("aime", "amc", "math", "minerva", "train")
    counts = {split: sum(1 for _ in source.rows(split)) for split in source.splits()}
    assert counts == {"aime": 30, "amc": 83, "math": 500, "minerva": 272, "train": 975}
    assert ids(source.rows("math"))[0] == "test/precalculus/807.json"
    assert sum(1 for _ in RowSource(str(real_data / "gsm8k")).rows("test")) == 1319
