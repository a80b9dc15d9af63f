"""Reads rows of Hugging Face data sets: `hf:NAME[:CONFIG][@COMMIT]`, or a local folder in their layout."""

import logging
import re
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

from rollouthub.authoring.rows.row import Row
from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.extras import pip_install
from rollouthub.plugins.file_owners import refuse_strangers
from rollouthub.task import BadRow

PREFIX = "hf:"
_AT_COMMIT = re.compile(r"(.*)@([0-9a-f]{40})", re.DOTALL)


def hugging_face_splits(source: str) -> tuple[str, ...]:
    """The splits of a data set, `test` first.

    Raises:
        ConfigError: the data set cannot be fetched.
    """
    name, config, revision = _parse(source)
    datasets = _library(source)
    with _reachable(source):
        names = [str(split) for split in datasets.get_dataset_split_names(name, config, revision=revision)]
    return tuple(sorted(names, key=lambda split: split != "test"))


def read_hugging_face(source: str, split: str) -> Iterator[Row | BadRow]:
    """The rows of one split.

    Raises:
        ConfigError: the data set cannot be fetched.
        DataError: the split holds no rows.
    """
    name, config, revision = _parse(source)
    datasets = _library(source)
    with _reachable(source):
        rows = _with_raw_pictures(datasets, datasets.load_dataset(name, config, split=split, revision=revision))
    folder = Path(name) if Path(name).is_dir() else Path(datasets.config.HF_CACHE_HOME)
    if not len(rows):
        raise DataError(f"split {split!r} holds no rows", source)
    for index, values in enumerate(rows):
        yield Row(values, f"{source} ({split})", None, index, folder)


def _with_raw_pictures(datasets: Any, rows: Any) -> Any:
    """The rows with pictures as stored bytes, not decoded."""
    raw = datasets.Image(decode=False)
    for column, feature in rows.features.items():
        if isinstance(feature, datasets.Image):
            rows = rows.cast_column(column, raw)
        elif isinstance(getattr(feature, "feature", None), datasets.Image):
            rows = rows.cast_column(column, type(feature)(raw))
    return rows


def _parse(source: str) -> tuple[str, str | None, str | None]:
    """The name, configuration and commit in a source."""
    named = source.removeprefix(PREFIX)
    revision = None
    if pinned := _AT_COMMIT.fullmatch(named):
        named, revision = pinned.groups()
    name, _, config = named.partition(":")
    if not name:
        raise ConfigError(f"data = {source!r}: name the data set, as in hf:openai/gsm8k or hf:openai/gsm8k:main")
    refuse_strangers(name)
    return name, config or None, revision


def _library(source: str) -> Any:
    try:
        datasets: Any = import_module("datasets")
        hub: Any = import_module("huggingface_hub.constants")
    except ImportError as error:
        raise ConfigError(
            f"{source!r} needs the library `datasets`: {pip_install('data')}; "
            "or give a local copy with `--set data=PATH`"
        ) from error
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # a line for every retry; the last error says it all
    if not Path(_parse(source)[0]).exists() and not _is_known(urlsplit(str(hub.ENDPOINT))):
        # What was fetched before is taken; else it says at once what five retries would say in half a minute.
        datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    return datasets


def _is_known(address: SplitResult) -> bool:
    """Whether a server's host name resolves here; True behind a proxy, which would resolve it."""
    if address.hostname is None or getproxies():
        return True
    try:
        socket.getaddrinfo(address.hostname, address.port or 443)
    except OSError:
        return False
    return True


@contextmanager
def _reachable(source: str) -> Generator[None]:
    """Turn any error of fetching a data set into one that says what to do."""
    name, _, _ = _parse(source)
    try:
        yield
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:300]
        what = "read" if Path(name).exists() else "fetched from Hugging Face"
        raise ConfigError(
            f"the data set {name!r} could not be {what} ({type(error).__name__}: {reason}); give a local copy with "
            "`--set data=PATH` (a .jsonl, .json or .parquet file, or a folder of them)"
        ) from error
