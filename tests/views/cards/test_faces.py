"""One rollout on every face: web page, report, notebook, terminal, its text mode and `hub show` tell the same."""

from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("textual")

from rollouthub import Rollout, Score
from rollouthub.cli.show.transcript_view import MARGIN, print_rollout
from rollouthub.score import Component
from rollouthub.views.notebook.record_page import shown
from rollouthub.views.report.html_page import html_report
from rollouthub_tui.text.documents import section_lines
from rollouthub_tui.widgets.rollout.transcript import transcript
from tests.store.records import record
from tests.tui.episodes import call, turn
from tests.views.cards.shown_pages import Harmless, content_of
from tests.views.report.played import make_run, report_of

CODE = 'for name in ["a", "b"]:\n    print(name)'
FACTS = (
    "turn 1",
    "turn 2",
    "reward 0.375",
    "run_python",
    "timeout",
    "no module named x",
    "What is the sum?",
    "I shall compute it.",
    "expected 8547, got 8548",
    "tests",
    "style",
    "0.5 × 0.5",
)


def told() -> Rollout:
    """A rollout that did not pass, with code and feedback."""
    ran = call(0, "run_python", {"code": CODE, "timeout": 60}, "no module named x", is_error=True)
    parts = {"tests": Component(value=0.5, weight=0.5), "style": Component(value=0.25, weight=0.5)}
    return record(
        "a-0",
        turns=(turn(0, "I shall compute it.", ran, user="What is the sum?"), turn(1, "8548")),
        score=Score(reward=0.375, passed=False, feedback="expected 8547, got 8548", components=parts),
    )


class Words(HTMLParser):
    """All text of a page, whatever elements it is in."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def words_of(page: str) -> str:
    """The text of a page."""
    return "".join(Words(page).said)


def web(rollout: Rollout) -> str:
    """The web page's content."""
    return Harmless(content_of(rollout)).text


def notebook(rollout: Rollout) -> str:
    """The notebook's page."""
    return words_of(shown(rollout)._repr_html_())  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it


def screen(rollout: Rollout) -> str:
    """The terminal's conversation with everything open."""
    parts: list[str] = []
    for section in transcript(rollout):
        parts.append(section.title(200, True).plain)
        for piece in section.pieces:
            parts += [piece.head.plain if piece.head is not None else "", piece.text]
    return "\n".join(parts)


def spoken(rollout: Rollout) -> str:
    """The text mode's lines."""
    return "\n".join(line for lines in section_lines(transcript(rollout)) for line in lines)


def printed(rollout: Rollout) -> str:
    """What `hub show` prints, without the margin beside the labels."""
    console = Console(file=StringIO(), width=200)
    print_rollout(console, rollout)
    assert isinstance(console.file, StringIO)
    return "\n".join(line.removeprefix(MARGIN) for line in console.file.getvalue().splitlines())


@pytest.mark.parametrize("face", [web, notebook, screen, spoken, printed])
def test_a_face_tells_every_fact_and_code_as_code(face: Callable[[Rollout], str]) -> None:
    said = face(told())
    assert [fact for fact in FACTS if fact not in said] == []
    assert CODE in said, "code stands as it was written, not as JSON"
    assert "turn 0" not in said


async def test_a_report_tells_the_same(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [told()])
    page = html_report(report_of(tmp_path / "run"))
    said = words_of(page)
    assert [fact for fact in FACTS if fact not in said] == []
    assert CODE in said
    assert 'id="rollout-a-0"' in page
    assert 'href="#rollout-a-0"' in page


def test_the_terminal_has_json_on_request() -> None:
    sections = transcript(told(), raw=True)
    texts = [piece.text for section in sections for piece in section.pieces]
    assert any('"code": "for name in [' in text and "\\n    print(name)" in text for text in texts)
