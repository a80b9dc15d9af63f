"""The page: one file that asks for nothing and runs nothing, whatever was said in the run."""

import base64
import hashlib
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub import Outcome
from rollouthub.analysis.compare.compared_run import read_compared
from rollouthub.analysis.compare.comparison import compare_runs
from rollouthub.store.notes import NoteChange, add
from rollouthub.views.report.gather import ReportedRun, gather
from rollouthub.views.report.html_page import html_report
from rollouthub.views.report.markdown import markdown_report
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import Report
from rollouthub.views.report.style import STYLE
from tests.views.report.played import HOSTILE, broken, hostile, make_run, played, report_of

KEPT = {
    "status",
    "chosen",
    "kind",
    "outcomes",
    "stops",
    "kinds",
    "outcome",
    "stop",
    "mime_type",
    "source",
    "stages",
} | {
    "role",
    "style",
    "mark",
    "word",
}
"""What is chosen from fixed words, and so is nobody's to make up."""
MARKED = {"prose", "code", "diff"}
"""Kinds of blocks whose text makes elements of its own, see tests/views/cards/test_harmless.py."""
SPECIAL = st.text(st.sampled_from("<>&\"'`/=-!;:x \n\x00\x1b\u202e"), min_size=1)
TEXT = st.text(min_size=1, max_size=60) | SPECIAL | st.just(HOSTILE[:900])


class Outline(HTMLParser):
    """The elements of a page with the names of their attributes, and what could lead out of it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.leads: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.leads += [value or "" for name, value in attrs if name in ("href", "src", "action", "data", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def outline(page: str) -> Outline:
    """The page, parsed."""
    parser = Outline()
    parser.feed(page)
    parser.close()
    return parser


def poisoned(value: Any, text: str, *, is_free: bool = True) -> Any:
    """The value with this text for every text that somebody else may word."""
    if isinstance(value, str):
        return text if is_free else value
    if isinstance(value, dict):
        pairs: list[tuple[str, Any]] = list(value.items())  # pyright: ignore
        kept = KEPT | {"text", "language"} if value.get("kind") in MARKED else KEPT  # pyright: ignore
        kept |= {"verdict"} if isinstance(value.get("verdict"), str) else set[str]()  # pyright: ignore
        return {key: poisoned(item, text, is_free=is_free and key not in kept) for key, item in pairs}
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore
        return [poisoned(item, text, is_free=is_free) for item in items]
    return value


@cache
def facts_of_a_run(folder: Path) -> dict[str, Any]:
    """A run that has some of everything."""
    return report_of(folder).model_dump()


async def test_no_text_adds_an_element_or_an_attribute(tmp_path: Path) -> None:
    records = [hostile(0, "sha256:" + "0" * 64), broken(1, Outcome.AGENT_FAILED), *(played(2, s) for s in range(2))]
    await make_run(tmp_path / "run", records)
    add(tmp_path / "run", NoteChange("g2-0", tags=("tag",), star=True, comment="said", reviewed=True), by="somebody")
    add(tmp_path / "run", NoteChange("g2-0", turn=1, comment="said"), by="somebody")
    facts = facts_of_a_run(tmp_path / "run")
    assert len(facts["runs"][0]["noted"]) == 1
    plain = outline(html_report(Report.model_validate(poisoned(facts, "sha256:plain")))).elements

    @given(TEXT)
    @settings(max_examples=60)
    def attack(text: str) -> None:
        # What has a digest in it is set as code.
        found = outline(html_report(Report.model_validate(poisoned(facts, f"sha256:{text}"))))
        assert found.elements == plain
        assert all(lead == "data:," or lead.startswith(("#run", "#rollout-", "data:image/")) for lead in found.leads)

    attack()


async def test_no_label_of_a_comparison_adds_an_element(tmp_path: Path) -> None:
    for name, reward in (("a", 1.0), ("b", 0.0), ("c", 1.0)):
        await make_run(tmp_path / name, [played(n, 0, reward=reward) for n in range(3)])
    found = compare_runs([read_compared(tmp_path / name, name) for name in "abc"], full_tasks=9, in_detail=True)
    runs = [ReportedRun(tmp_path / name, name) for name in "abc"]
    facts = gather(runs, Plainness(str), transcripts=0, comparison=found).model_dump()
    plain = outline(html_report(Report.model_validate(poisoned(facts, "sha256:plain")))).elements

    @given(TEXT)
    @settings(max_examples=30)
    def attack(text: str) -> None:
        report = Report.model_validate(poisoned(facts, f"sha256:{text}"))
        assert outline(html_report(report)).elements == plain
        assert "<img" not in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown_report(report))

    attack()


async def test_what_everybody_said_is_shown_as_text(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [hostile(0, "sha256:" + "0" * 64)])
    page = html_report(report_of(tmp_path / "run"))
    found = outline(page)
    assert {name for name, _ in found.elements}.isdisjoint({"script", "iframe", "object", "embed", "form", "base"})
    assert all(lead.startswith(("#rollout-", "data:", "https://", "http://")) for lead in found.leads)
    assert not any(name.startswith("on") or name == "style" for _, names in found.elements for name in names)
    assert any("<script>document.title='owned'" in words for words in found.words)
    assert all(letter == "\n" or letter.isprintable() for letter in page)


async def test_the_policy_allows_our_style_and_nothing_else(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(0, 0)])
    page = html_report(report_of(tmp_path / "run"))
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    assert style[1] == STYLE
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert f"sha256-{digest}" in policy[1]
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "url(" not in STYLE
    assert "@import" not in STYLE


async def test_digests_and_names_are_in_view_without_opening_anything(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(n, s, reward=float(s)) for n in range(3) for s in range(2)])
    page = html_report(report_of(tmp_path / "run"))
    seen = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    for words in ("arithmetic 1.2.0", "sha256:c0de", "sha256:b0b", "sha256:de95", "tool_loop 3", "openai/small"):
        assert words in seen
    assert "seed 7" in seen
    assert "3 tasks of arithmetic 1.2.0, split test, 2 samples each" in seen


async def test_every_chart_has_words_beside_it(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(n, s, reward=float(s)) for n in range(3) for s in range(2)])
    page = html_report(report_of(tmp_path / "run"))
    charts = re.findall(r'<svg [^>]*aria-label="([^"]*)"[^>]*><title>', page)
    assert [chart.split(".")[0] for chart in charts] == [
        "pass@k and avg@k",
        "Rewards of scored rollouts",
        "How rollouts ended",
    ]
    assert "pass@k: 0.500 at k=1, 1.000 at k=2" in charts[0]
    assert charts[2].endswith("3 passed, 3 not passed")
    assert "3 not passed</li>" in page and "scored</li>" not in page


async def test_several_runs_stand_side_by_side_and_say_whether_their_tasks_are_the_same(tmp_path: Path) -> None:
    await make_run(tmp_path / "a", [played(n, 0) for n in range(3)])
    await make_run(tmp_path / "b", [played(n, 0) for n in range(2)])
    assert "did not play the same tasks" in html_report(report_of(tmp_path / "a", tmp_path / "b"))
    assert "exactly the same tasks" in html_report(report_of(tmp_path / "a", tmp_path / "a"))


async def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [])
    assert "No rollout has ended yet" in html_report(report_of(tmp_path / "run"))
