"""A file's name and what is in it agree, or nothing is written."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.file_formats import FileFormat, file_format

ALL: tuple[FileFormat, ...] = ("jsonl", "parquet", "csv")


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("a.jsonl", None, "jsonl"),
        ("a.NDJSON", None, "jsonl"),
        ("a.parquet", None, "parquet"),
        ("a.b.csv", "csv", "csv"),
        ("a", None, "jsonl"),
        ("a", "parquet", "parquet"),
        ("/dev/null", "csv", "csv"),
        (None, None, "jsonl"),
        (None, "csv", "csv"),
    ],
)
def test_the_ending_says_the_format_and_no_ending_says_nothing(name: str | None, asked: str | None, found: str) -> None:
    assert file_format(None if name is None else Path(name), ALL, asked) == found


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("a.json", None, "end it in .jsonl, .ndjson, .parquet or .csv; did you mean 'a.jsonl'?"),
        ("a.parq", None, "did you mean 'a.parquet'?"),
        ("a.xlsx", None, "did you mean 'a.csv'?"),
        ("a.csv", "jsonl", "end it in .jsonl or .ndjson; did you mean 'a.jsonl'?"),
        ("a.jsonl", "parquet", "end it in .parquet; did you mean 'a.parquet'?"),
        ("a.txt", None, "'a.txt' would not hold what its name says: end it in .jsonl, .ndjson, .parquet or .csv"),
    ],
)
def test_another_ending_is_refused_with_those_that_fit(name: str, asked: str | None, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        file_format(Path(name), ALL, asked)
    assert str(refused.value).endswith(says)


def test_a_format_that_is_not_written_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'parquet'"):
        file_format(Path("a.parquet"), ("jsonl", "parquet"), "parqet")
    with pytest.raises(ConfigError, match=r"end it in \.jsonl, \.ndjson or \.parquet$"):
        file_format(Path("a.csv"), ("jsonl", "parquet"))
