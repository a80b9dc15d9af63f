"""`TableConfig`: the settings of environments whose tasks are the rows of a data set."""

from collections.abc import Callable, Iterator
from typing import ClassVar

from rollouthub import BadRow, EnvironmentConfig, Public, Secret, Task
from rollouthub.authoring.rows import ID_COLUMNS, PinnedData, Row, RowSource
from rollouthub.errors import ConfigError, DataError


class TableConfig(EnvironmentConfig):
    """The data set, and the names of its columns for ids and splits."""

    id_columns: ClassVar[tuple[str, ...]] = ID_COLUMNS
    """Columns that may hold a task's id, if none is named."""

    data: str | PinnedData | None = None
    """A .jsonl, .json or .parquet file (.gz too), a folder with a file per split, or `hf:NAME[:CONFIG]`. Required.
    Named benchmarks pin their files by digest; `hub fetch NAME` brings them."""
    id_column: str | None = None
    """Column of the task's id; by default id, task_id or unique_id if the row has one, else SPLIT/INDEX."""
    split_column: str | None = None
    """Column with each row's split; None if the file is one split."""

    def rows(self) -> RowSource:
        """The data set.

        Raises:
            ConfigError: no data set was named.
        """
        if not self.data:
            raise ConfigError(
                "no data: name a file or a folder with `--set data=PATH`, or a Hugging Face data set with "
                "`--set data=hf:NAME`"
            )
        return RowSource(
            self.data, id_column=self.id_column, split_column=self.split_column, id_columns=self.id_columns
        )

    def tasks(
        self, split: str, make: Callable[[str, Row], Task[Public, Secret]]
    ) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file; a `BadRow` if `make` raises a `DataError`."""
        for row in self.rows().rows(split):
            if isinstance(row, BadRow):
                yield row
                continue
            try:
                yield make(*row)
            except DataError as error:
                yield BadRow(error)
