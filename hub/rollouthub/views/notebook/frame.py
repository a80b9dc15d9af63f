"""A table of a run, stored as an Arrow table."""

from importlib import import_module
from typing import Any, cast

from rollouthub.errors import ConfigError
from rollouthub.views.notebook import notebook_html

_ROWS_SHOWN, _COLUMNS_SHOWN = 20, 40


class Frame:
    """An Arrow table that converts to pandas and polars, and that notebooks display with escaped text.

    Libraries that read Arrow's C stream take a frame directly, without a copy: `pyarrow.table(frame)`,
    `polars.DataFrame(frame)`, `duckdb`.
    """

    def __init__(self, arrow: Any) -> None:
        self.arrow = arrow
        """The `pyarrow.Table`."""

    def __len__(self) -> int:
        return self.arrow.num_rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return cast("list[str]", self.arrow.column_names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Convert to a `pandas.DataFrame` with Arrow column types, so that integer columns with nulls stay integers.

        Raises:
            ConfigError: pandas is not installed.
        """
        pandas = _installed("pandas")
        return self.arrow.to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> Any:
        """Convert to a `polars.DataFrame` that shares this table's memory.

        Raises:
            ConfigError: polars is not installed.
        """
        return _installed("polars").from_arrow(self.arrow)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Every row as a dictionary."""
        return self.arrow.to_pylist()

    def __repr__(self) -> str:
        return f"<Frame of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        names = self.columns[:_COLUMNS_SHOWN]
        rows = self.arrow.select(names).slice(0, _ROWS_SHOWN).to_pylist()
        cells = ([_cell(row[name]) for name in names] for row in rows)
        left = len(self) - len(rows)
        more = notebook_html.heading(f"… and {left} more rows") if left > 0 else None
        return notebook_html.page(notebook_html.table(names, cells), more)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)[:400]


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f"a {name} data frame needs {name}: pip install {name}. Arrow's own is `.arrow`") from error
