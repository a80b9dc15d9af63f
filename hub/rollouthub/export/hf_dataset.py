"""Runs as a Hugging Face data set, without writing a file."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export.data_set import DataSet
from rollouthub.export.data_set_files import arrow_schema, load_arrow
from rollouthub.export.formats.data_columns import Row
from rollouthub.export.recipe import Recipe
from rollouthub.plugins.extras import pip_install
from rollouthub.store import open_run
from rollouthub.store.run_directories import DATABASE
from rollouthub.values import Float32s, Int32s


def hub_dataset(
    *runs: str | PathLike[str], format: str = "sft", recipe: Recipe | None = None, streaming: bool = False
) -> Any:
    """A `datasets.Dataset` of run directories, in a format or by a recipe; with `streaming`, an `IterableDataset`.

    Raises:
        ConfigError: `datasets` is not installed.
        RunDirectoryError: a directory holds no run.
        MixedModels: the runs are of several models.
    """
    try:
        datasets: Any = import_module("datasets")
    except ImportError as error:
        raise ConfigError(f"a data set needs the library `datasets`: {pip_install('data')}") from error
    wanted = Recipe(format=format) if recipe is None else recipe
    folders = tuple(Path(run) for run in runs)  # no lists: `datasets` takes those for shards
    with ExitStack() as opened:
        looked_over = DataSet([opened.enter_context(open_run(folder)) for folder in folders], wanted)
    features = datasets.Features.from_arrow_schema(arrow_schema(load_arrow(), looked_over.columns))
    kind = datasets.IterableDataset if streaming else datasets.Dataset
    # The stamps make a run that has grown another data set: `datasets` keeps what it made by what it was made of.
    stamps = tuple(_stamp(folder) for folder in folders)
    return kind.from_generator(
        _rows, features=features, gen_kwargs={"folders": folders, "recipe": wanted, "stamps": stamps}
    )


def _rows(folders: Sequence[Path], recipe: Recipe, stamps: tuple[object, ...]) -> Iterator[Row]:
    """The rows, with plain numbers; `stamps` is unused except that `datasets` caches by it, so that a changed run is
    read anew.
    """
    with ExitStack() as opened:
        for row in DataSet([opened.enter_context(open_run(folder)) for folder in folders], recipe):
            yield {name: _plain(value) for name, value in row.items()}


def _stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    files = [folder / DATABASE, folder / f"{DATABASE}-wal"]
    return tuple((found.st_mtime_ns, found.st_size) for file in files if file.exists() and (found := file.stat()))


def _plain(value: Any) -> Any:
    """The value with packed numbers as lists, at any depth."""
    if isinstance(value, Int32s | Float32s):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
