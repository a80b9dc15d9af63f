"""Writes a report in the requested format."""

from pathlib import Path
from typing import Literal, get_args

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.store.atomic_files import complete_file
from rollouthub.views.report.html_page import html_report
from rollouthub.views.report.markdown import markdown_report
from rollouthub.views.report.report_facts import Report

Format = Literal["html", "md", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json"}


def format_of(output: Path | None, given: str | None) -> Format:
    """The format that was given, else the one that the file name ends in; Markdown without a file.

    Raises:
        UsageError: the format is unknown, or the ending of the file name is.
    """
    if given is not None:
        for known in FORMATS:
            if given == known:
                return known
        raise UnknownNameError("report format", given, FORMATS)
    if output is None:
        return "md"
    found = _ENDINGS.get(output.suffix.lower())
    if found is None:
        raise ConfigError(f"the ending of {str(output)!r} names no format; add --format html, md or json")
    return found


def is_report(output: Path | None) -> bool:
    """Whether a path has the ending of a report file and is not a directory."""
    return output is not None and output.suffix.lower() in _ENDINGS and not output.is_dir()


def render(report: Report, form: Format) -> str:
    """The report as text in this format."""
    match form:
        case "html":
            return html_report(report)
        case "md":
            return markdown_report(report)
        case "json":
            return report.model_dump_json(indent=2) + "\n"


def write_report(report: Report, output: Path, form: Format) -> None:
    """Write the report to a file, which appears only once it is complete.

    Raises:
        ConfigError: the path cannot be written to.
        StoreError: writing failed.
    """
    with complete_file(output) as partial:
        partial.write_text(render(report, form), encoding="utf-8")
