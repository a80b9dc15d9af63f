"""Pages of rollouts to look at in tests: the web page's content, and a checker that lets nothing harmful through."""

from html.parser import HTMLParser

from rollouthub import Message, Rollout, Score, ToolCall, ToolRequest, Turn
from rollouthub.rollout import Fault, Intervention
from rollouthub.score import ModelCall
from rollouthub.views.web.rollout_content import rollout_content
from tests.store.records import conversation, record

_PHRASES = "a b bdi br code em img input label s span strong"
_BLOCKS = "blockquote dd details div dl dt fieldset h3 h4 header hr li ol p pre section summary"
_TABLES = "table tbody td th thead tr ul"
_ATTRIBUTES = (
    "alt aria-label autocomplete class href id loading open rel role scope src start tabindex target title type"
)
TAGS, ATTRIBUTES = {*_PHRASES.split(), *_BLOCKS.split(), *_TABLES.split()}, set(_ATTRIBUTES.split())
ADDRESSES = ("http://", "https://", "mailto:", "#turn-", "/media/")


class Harmless(HTMLParser):
    """Reads HTML, and fails on whatever could run, load or lead elsewhere but by a plain link."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.said: list[str] = []
        self.classes: list[str] = []
        self.ids: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        """All text of the page."""
        return "".join(self.said)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name in ("href", "src"):
                assert (value or "").lower().startswith(ADDRESSES), value
            if name == "src":
                assert (value or "").startswith("/media/")
            if name == "class":
                self.classes += (value or "").split()
            if name == "id":
                self.ids.append(value or "")
        if tag not in ("br", "hr", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def content_of(rollout: Rollout) -> str:
    """The content of a rollout's page."""
    return rollout_content(
        rollout, tools=(), media_url=lambda digest: f"/media/{digest[7:]}", turn_link=lambda turn: f"#turn-{turn + 1}"
    )


def saying(text: str) -> Rollout:
    """A rollout in which everybody says one text."""
    (turn, _) = conversation(2)
    call: ToolCall = turn.tool_calls[0].model_copy(
        update={"name": text, "arguments": {text: text, "code": f"{text}\n"}}
    )
    request = ToolRequest(id="x", name=text, arguments=text)
    response = Message(role="assistant", content=text, reasoning=text, tool_requests=(request,))
    asked = (Message(role="system", content=text), Message(role="user", content=text))
    made: Turn = turn.model_copy(
        update={"messages": asked, "response": response, "tool_calls": (call,), "finish_reason": text, "agent": text}
    )
    judge = ModelCall(role=text, model=text, messages=asked, response=Message(role="assistant", content=text))
    broke = ModelCall(model=text, messages=(), response=None, error=text)
    score = Score(
        reward=0.5, feedback=text, suspect=text, judge_calls=(judge, broke), metrics={text: 1.0}, seat_rewards={text: 1}
    )
    return record(
        "a-0",
        turns=(made,),
        score=score,
        answer=text,
        role_calls=(judge,),
        told=(Intervention(at=1.0, seat=text, text=text),),
        faults=(Fault(boundary="agent", phase="agent", type=text, message=text),),
        trainable=False,
        trainable_reason=text,
        gaps=(text,),
    )
