"""Markdown for pull requests: what others worded stays text, in a cell of a table, too."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rollouthub import Outcome
from rollouthub.store.notes import NoteChange, add
from rollouthub.views.report.markdown import code, markdown_report
from tests.views.report.played import HOSTILE, broken, hostile, make_run, played, report_of


@given(st.text(st.sampled_from("`|\\ <@[]()!\n*ab"), max_size=40) | st.text(max_size=40))
def test_text_cannot_leave_its_code(text: str) -> None:
    found = code(text)
    assert "\n" not in found
    assert "|" not in found
    fence = re.match("`+", found)
    if fence is None:
        assert found == "–"
        return
    inner = found[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    assert found.endswith(fence[0])


async def test_a_hostile_run_makes_a_table_of_as_many_cells(tmp_path: Path) -> None:
    await make_run(
        tmp_path / "run", [hostile(0, "sha256:" + "0" * 64), broken(1, Outcome.AGENT_FAILED, "a | b\n\n# c")]
    )
    add(tmp_path / "run", NoteChange("g0-0", tags=(HOSTILE[:60],), comment=HOSTILE), by="a | b")
    text = markdown_report(report_of(tmp_path / "run"))
    assert "### Notes" in text
    widths: list[int] = []
    for line in text.splitlines():
        if line.startswith("|"):
            widths.append(line.count("|"))
        elif widths:
            assert len(set(widths)) == 1
            widths = []
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not any(sign in outside for sign in ("<", "@everyone", "]("))


async def test_it_is_short_enough_for_a_comment_and_names_what_made_the_numbers(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(n, s, reward=float(s)) for n in range(90) for s in range(2)])
    text = markdown_report(report_of(tmp_path / "run"))
    assert len(text) < 20_000
    for words in ("`sha256:c0de`", "`arithmetic 1.2.0`", "`openai/small`", "| k | pass@k | avg@k |"):
        assert words in text
