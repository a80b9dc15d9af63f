"""Rows of data sets: JSONL, JSON, Parquet, folders of these, and Hugging Face, each row with its file and line."""

from rollouthub.authoring.rows.row import Row
from rollouthub.authoring.rows.row_pictures import illustrated, pictures_of
from rollouthub.authoring.rows.row_source import RowSource

__all__ = ["Row", "RowSource", "illustrated", "pictures_of"]
