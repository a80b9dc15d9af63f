"""The manual says what the audit tries, what it prints, and by which classes."""

import re
from pathlib import Path

import pytest

from rollouthub_registry.check.defect_class import DEFECTS
from tests.audit_tables import PAGE, tables, written

from .test_command import FIELDS

CHECKING = Path(PAGE).with_name("checking.md")


@pytest.mark.parametrize("mark", ["probes", "classes"])
def test_the_manuals_table_is_that_of_the_code(mark: str) -> None:
    assert written(mark) == tables()[mark], "write it anew: python -m tests.audit_tables"


def test_the_manual_names_every_field_of_the_json() -> None:
    section = PAGE.read_text().partition("The JSON object")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z_]+)`", section)) >= FIELDS


def test_the_manual_of_checks_names_leaks_as_the_audit_does() -> None:
    text = CHECKING.read_text()
    leaks = re.findall(r"^\| (L\d+) ([^|]+) \|", text, re.MULTILINE)
    assert dict(leaks) == {name: title for name, title in DEFECTS.items() if re.fullmatch(r"L\d+", name)}
