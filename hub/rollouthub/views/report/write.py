"""Writes a report in the requested format."""

from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import VIEWS, plugins
from rollouthub.store.atomic_files import complete_file
from rollouthub.views.report.report_facts import Report
from rollouthub.views.report.report_view import find_view, view_of_ending

_WITHOUT_FILE = "md"
"""The format of a report that goes to stdout."""


def format_of(output: Path | None, given: str | None) -> str:
    """The format that was given, else the one that the file name ends in; Markdown without a file.

    Raises:
        UsageError: the format is unknown, or the ending of the file name is.
    """
    if given is not None:
        find_view(given)
        return given
    if output is None:
        return _WITHOUT_FILE
    found = view_of_ending(output.suffix)
    if found is None:
        known = " or ".join(", ".join(plugins(VIEWS)).rsplit(", ", 1))
        raise ConfigError(f"the ending of {str(output)!r} names no format; add --format {known}")
    return found


def is_report(output: Path | None) -> bool:
    """Whether a path has the ending of a report file and is not a directory."""
    return output is not None and view_of_ending(output.suffix) is not None and not output.is_dir()


def render(report: Report, form: str) -> str:
    """The report as text in this format."""
    return find_view(form).render(report)


def write_report(report: Report, output: Path, form: str) -> None:
    """Write the report to a file, which appears only once it is complete.

    Raises:
        ConfigError: the path cannot be written to.
        StoreError: writing failed.
    """
    with complete_file(output) as partial:
        partial.write_text(render(report, form), encoding="utf-8")
