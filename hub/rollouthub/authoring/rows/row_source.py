"""`RowSource`: the data that `--set data=…` names, with its splits, rows and task ids."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rollouthub.authoring.rows.hugging_face import PREFIX, hugging_face_splits, read_hugging_face
from rollouthub.authoring.rows.pinned_data import PinnedData
from rollouthub.authoring.rows.row import METADATA, Row
from rollouthub.authoring.rows.row_files import SUFFIXES, is_metadata, read_file, suffix_of
from rollouthub.errors import ConfigError, DataError, UnknownNameError
from rollouthub.task import BadRow

_HUGGING_FACE = re.compile(r"[\w][\w.-]*/[\w][\w.-]*(:[\w.-]+)?")
"""A data set's name at Hugging Face."""
ID_COLUMNS = ("id", "task_id", "unique_id")
"""Columns that may hold a row's own id, if none is named."""


class RowSource:
    """A data file, a folder with a file per split, a Hugging Face data set (`hf:NAME[:CONFIG]`), or pinned files.

    A folder of pictures has a `metadata.jsonl` or `.csv`, or a folder for each split with one.

    In a folder, `aime.json` and `test_aime.json` are the split `aime`; `train.json`, or the only `train_….json`, is
    `train`. A bare file is the split `test`, unless `split_column` names the column that says each row's split.
    """

    def __init__(
        self,
        data: str | PinnedData,
        *,
        id_column: str | None = None,
        split_column: str | None = None,
        id_columns: Sequence[str] = ID_COLUMNS,
    ) -> None:
        """`id_columns` are those of which the first that a row has holds its id, if no `id_column` is named."""
        self._data = data
        self._id_column = id_column
        self._split_column = split_column
        self._id_columns = id_columns

    def splits(self) -> tuple[str, ...]:
        """The splits, the default one first.

        Raises:
            ConfigError: there is no such data, or it cannot be fetched.
            DataError: the data cannot be read.
        """
        if self._split_column is not None:
            # A dict, for the order of appearance.
            found = {self._split_of(row): None for row in self._read_all() if isinstance(row, Row)}
            return _default_first(tuple(found))
        if isinstance(self._data, PinnedData):
            return tuple(self._data.splits)
        if self._data.startswith(PREFIX):
            return hugging_face_splits(self._data)
        path = self._path(self._data)
        return _default_first(tuple(_split_files(path))) if path.is_dir() else ("test",)

    def rows(self, split: str) -> Iterator[tuple[str, Row] | BadRow]:
        """The rows of a split, lazily, each with its task id; a `BadRow` for each that cannot be read.

        The id is the row's own, else `SPLIT/INDEX` with the row's index in its file from 0, bad rows counted.

        Raises:
            ConfigError: there is no such data.
            DataError: the data cannot be read.
            UnknownNameError: there is no such split.
        """
        taken: dict[int, int] = {}
        for row in self._read(split):
            if isinstance(row, BadRow):
                yield row
                continue
            try:
                if self._split_column is None or self._split_of(row) == split:
                    yield self._id_of(row, split, taken), row
            except DataError as error:
                yield BadRow(error)

    def _read(self, split: str) -> Iterator[Row | BadRow]:
        if self._split_column is not None:
            return self._read_all()
        if isinstance(self._data, PinnedData):
            if split not in self._data.splits:
                raise UnknownNameError(f"split of {self._data.name}", split, self._data.splits)
            return read_file(self._data.file_of(split))
        if self._data.startswith(PREFIX):
            return read_hugging_face(self._data, split)
        path = self._path(self._data)
        if not path.is_dir():
            return read_file(path)
        files = _split_files(path)
        if split not in files:
            raise UnknownNameError(f"split in {path}", split, files)
        return read_file(files[split])

    def _read_all(self) -> Iterator[Row | BadRow]:
        data = self._data
        if isinstance(data, PinnedData) or data.startswith(PREFIX) or self._path(data).is_dir():
            named = data.name if isinstance(data, PinnedData) else data
            raise ConfigError(f"split_column is for a single file; {named!r} has its splits apart already")
        return read_file(self._path(data))

    def _path(self, data: str) -> Path:
        path = Path(data).expanduser()
        if not path.exists():
            meant = ""
            if _HUGGING_FACE.fullmatch(data):
                meant = f"; a data set on Hugging Face is written {PREFIX + data!r}"
            raise ConfigError(f"data = {data!r}: there is no such file or folder{meant}")
        return path

    def _split_of(self, row: Row) -> str:
        assert self._split_column is not None
        return str(row.column(self._split_column, "split_column"))

    def _id_of(self, row: Row, split: str, taken: dict[int, int]) -> str:
        task_id = self._own_id(row)
        if task_id is None:
            return f"{split}/{row.index}"
        # A digest a row, not the id itself: memory stays flat whatever the ids look like.
        key = int.from_bytes(hashlib.blake2b(task_id.encode(errors="replace"), digest_size=8).digest())
        place = row.line if row.line is not None else row.index
        first = taken.setdefault(key, place)
        if first != place:
            where = f"line {first}" if row.line is not None else f"row {first}"
            raise row.error(f"the id {task_id!r} repeats that of {where}; name another column with `--set id_column=…`")
        return task_id

    def _own_id(self, row: Row) -> str | None:
        if self._id_column is not None:
            task_id = _as_id(row.column(self._id_column, "id_column"))
            if task_id is None:
                raise row.error(f"column {self._id_column!r} holds no id, but {row.values[self._id_column]!r}")
            return task_id
        return next((text for name in self._id_columns if (text := _as_id(row.values.get(name))) is not None), None)


def _as_id(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value)


def _split_files(folder: Path) -> dict[str, Path]:
    """Split → file, for every data file of a folder."""
    files: dict[str, Path] = {}
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"data = {str(folder)!r}: the folder cannot be read: {error.strerror}") from error
    for path in entries:
        if is_metadata(path):
            files["test"] = path
            continue
        if path.is_dir() and (described := _metadata_in(path)) is not None:
            files[path.name] = described
            continue
        suffix = suffix_of(path)
        if suffix is None or not path.is_file():
            continue
        split = path.name[: -len(suffix)].removeprefix("test_")
        if split in files:
            raise ConfigError(f"{files[split]} and {path} are both split {split!r}; remove one")
        files[split] = path
    if not files:
        raise ConfigError(f"data = {str(folder)!r}: the folder holds no data file ({', '.join(SUFFIXES)})")
    training = [split for split in files if split.startswith("train_")]
    if len(training) == 1 and "train" not in files:
        files["train"] = files.pop(training[0])
    return files


def _metadata_in(folder: Path) -> Path | None:
    """The `metadata` file of a folder of pictures; None if there is none."""
    places = (folder / f"{METADATA}.jsonl", folder / f"{METADATA}.csv")
    return next((path for path in places if path.is_file()), None)


def _default_first(splits: tuple[str, ...]) -> tuple[str, ...]:
    """The splits with `test` first and `train` last; the first is the default."""
    return tuple(sorted(splits, key=lambda split: (split != "test", split == "train")))
