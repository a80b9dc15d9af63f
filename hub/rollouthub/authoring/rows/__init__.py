"""Rows of data sets: JSONL, JSON, Parquet, folders of these, and Hugging Face, each row with its file and line."""

from rollouthub.authoring.rows.fetched_file import fetch_file
from rollouthub.authoring.rows.pinned_data import PinnedData, PinnedFile, digest_of
from rollouthub.authoring.rows.row import Row
from rollouthub.authoring.rows.row_pictures import illustrated, pictures_of
from rollouthub.authoring.rows.row_source import ID_COLUMNS, RowSource

__all__ = [
    "ID_COLUMNS",
    "PinnedData",
    "PinnedFile",
    "Row",
    "RowSource",
    "digest_of",
    "fetch_file",
    "illustrated",
    "pictures_of",
]
