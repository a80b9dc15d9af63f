"""Rows of data sets: JSONL, JSON, Parquet, folders of these, and Hugging Face, each row with its file and line."""

from envhub.rows.row import Row
from envhub.rows.source import RowSource

__all__ = ["Row", "RowSource"]
