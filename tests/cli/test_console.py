"""Where commands print: what goes to no terminal is for scripts, too."""

import pytest
from rich.table import Table
from rich.text import Text

from rollouthub.cli.console import remarks, results


def test_what_goes_to_no_terminal_is_neither_cut_off_nor_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path, words = "runs/" + 300 * "long-", " ".join(["word"] * 200)
    table = Table("run", "what it is", box=None)
    table.add_row(path, words)
    for console in (results(), remarks()):
        console.print(table)
        console.print(Text(words))
    for said in capsys.readouterr():
        _, row, line = (each.strip() for each in said.splitlines())
        assert row == f"{path}  {words}" and line == words
