"""Names of the formats of `hub export`."""

RECORDS = ("jsonl", "parquet", "csv")
"""Formats of full records."""


def training_formats() -> list[str]:
    """Names of the registered training formats, those of other installed distributions included."""
    from rollouthub.plugins.entry_points import EXPORT_FORMATS, plugins

    return list(plugins(EXPORT_FORMATS))
