"""Pages for notebooks: hostile text is shown as text, and nothing is fetched or run."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollouthub
from rollouthub import Message, Outcome, Score, ToolRequest, Turn
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.views.notebook import notebook_html as html
from rollouthub.views.notebook.record_page import shown
from tests.store.records import conversation, record, write
from tests.strategies import rollouts

PHRASES = ("a", "b", "bdi", "br", "code", "em", "img", "s", "span", "strong")
BLOCKS = (
    "blockquote dd details div dl dt h3 h4 header hr li ol p pre section style summary table tbody td th thead tr ul"
)
TAGS = {*PHRASES, *BLOCKS.split()}
ATTRIBUTES = {"style", "class", "open", "aria-label", "role", "tabindex", "scope", "rel", "target", "title"}
HARMLESS = ("http://", "https://", "mailto:")
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'</pre></bdi></details>"
    "\x1b]8;;http://evil\x07link\x1b[31m\x00\x08\x9b2J\u202eevil\u2066\u200b\u2028"
    " $\\href{javascript:alert(1)}{x}$ &lt;"
)
UNSEEN = set("\x00\x07\x08\x1b\x7f\x9b\x9d\u202a\u202e\u2066\u2069\u200b\u200f\u2028\ufeff")


class Checker(HTMLParser):
    """Reads a page, and lets nothing through but plain tables and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open
        assert not UNSEEN & set(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        for name, value in attrs:
            assert name in ATTRIBUTES or (tag, name) in (("a", "href"), ("ol", "start"))
            assert name != "href" or (value or "").startswith(HARMLESS)
            assert "url" not in (value or "")
        assert self.open or dict(attrs)["class"] == "tex2jax_ignore mathjax_ignore"
        if tag not in ("br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def hostile_turn() -> Turn:
    (turn, _) = conversation(2)
    call = turn.tool_calls[0].model_copy(update={"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}})
    asked = ToolRequest(id="x", name=HOSTILE, arguments="")
    said = Message(role="assistant", content=HOSTILE, reasoning=HOSTILE, tool_requests=(asked,))
    return turn.model_copy(update={"response": said, "tool_calls": (call,), "agent": HOSTILE})


async def test_hostile_text_is_text_on_every_page(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    made = record(
        "a-0",
        turns=(hostile_turn(),),
        environment=EnvironmentRef(name=HOSTILE, version=HOSTILE, digest="sha256:0"),
        task=TaskRef(split="test", id=HOSTILE, digest="sha256:0"),
        agent=AgentRef(name=HOSTILE, version="1"),
        score=Score(reward=1.0, feedback=HOSTILE),
        answer=HOSTILE,
    )
    await write(tmp_path / "run", [made, record("b-0", 0, Outcome.AGENT_FAILED)])
    with rollouthub.open_run(tmp_path / "run") as run:
        for shown_thing in (run, run.rollout("a-0"), run.rollouts(), run.turns(), run.tool_calls()):
            page = Checker(shown_thing._repr_html_())  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it
            assert "alert(1)" in "".join(page.said)


@settings(max_examples=30)
@given(rollouts())
def test_any_record_makes_a_page(rollout: rollouthub.Rollout) -> None:
    page = shown(rollout)._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it
    Checker(page)


@given(st.text(max_size=80))
def test_any_text_is_one_piece_of_text(text: str) -> None:
    Checker(html.page(html.block(text, 1000), html.words(text), html.folded(text, html.words(""))))


def test_a_long_record_is_cut_and_says_so() -> None:
    (first, _) = conversation(2)
    huge = first.model_copy(update={"response": Message(role="assistant", content="x" * 10**6)})
    page = shown(record("a-0", turns=(huge,) * 100))._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the same
    assert len(page) < 1_100_000
    assert "more turns" in page
    assert "980,000 more characters" in page


def test_the_words_of_a_judge_stand_with_their_turn() -> None:
    score = Score(reward=1.0, turn_rewards={1: 0.5}, metadata={"credit": {"turns": {"1": f"apt {HOSTILE}"}}})
    made = record("a-0", turns=conversation(2), score=score)
    said = Checker(shown(made)._repr_html_()).said  # pyright: ignore[reportPrivateUsage]  # the same
    assert said.index("judge") < next(at for at, text in enumerate(said) if text.startswith("apt "))
    assert said.count("judge") == 1


def test_what_is_unscored_is_a_dash() -> None:
    page = shown(record("a-0", 0, Outcome.MODEL_FAILED))._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the same
    said = Checker(page).said
    assert said[said.index("reward") + 1] == "–"
