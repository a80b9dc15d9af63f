"""Transcripts as HTML: conversations that open on a click, and within them tool calls that do, too."""

from rollouthub.statistics.amounts import count, number, seconds
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.report.report_facts import RunReport
from rollouthub.views.report.rollout_text import Picture, Transcript, TranscriptBlock

_TITLES = {"worst": "The lowest rewards", "best": "The highest rewards", "unscored": "Not scored"}
_WHO = {
    "system": "system",
    "user": "user",
    "assistant": "agent",
    "reasoning": "agent, thinking",
    "call": "tool call",
    "omitted": "",
}


def transcripts(run: RunReport) -> Markup | None:
    """The section with transcripts of the worst, the best and the unscored rollouts; None without any."""
    if not run.transcripts:
        return None
    chosen = {each.chosen for each in run.transcripts}
    parts: list[Markup] = []
    for kind, title in _TITLES.items():
        if kind in chosen:
            # Where all rewards are alike, none is the best.
            said = "Some of the rollouts, all of one reward" if kind == "best" and len(run.rewards) == 1 else title
            parts.append(tag("h3", said))
            parts += [_transcript(each) for each in run.transcripts if each.chosen == kind]
    return tag("section", tag("h2", "Transcripts"), parts)


def _transcript(transcript: Transcript) -> Markup:
    reward = "no reward" if transcript.reward is None else f"reward {number(transcript.reward)}"
    mark = "bad" if transcript.reward is None or transcript.passed is False else "good" if transcript.passed else "warn"
    head = tag(
        "summary",
        tag("span", reward, class_=f"chip {mark}"),
        " ",
        tag("b", transcript.task),
        tag(
            "span",
            f" · sample {transcript.sample} · {transcript.outcome}, {transcript.stop}"
            f" · {count(transcript.turns, 'turn')}",
            class_="soft",
        ),
    )
    facts = [
        ("rollout", transcript.rollout_id),
        ("environment", transcript.environment),
        ("took", f"{seconds(transcript.seconds)}, {transcript.output_tokens:,} output tokens"),
        ("submitted", transcript.answer),
        ("feedback", transcript.feedback),
        ("fault", transcript.fault),
    ]
    said = [join(tag("dt", term), tag("dd", value)) for term, value in facts if value]
    parts = table(["component", "value × weight"], transcript.components.items()) if transcript.components else None
    return tag("details", head, tag("dl", said), parts, [_block(block) for block in transcript.blocks], class_="task")


def _block(block: TranscriptBlock) -> Markup:
    if block.kind == "omitted":
        return tag("p", f"… {block.text} …", class_="soft")
    if block.kind == "call":
        return _call(block)
    inner = tag("p", block.text) if len(block.text) < 1200 and block.kind != "system" else tag("pre", block.text)
    if block.kind in ("system", "reasoning"):
        inner = tag("details", tag("summary", f"{len(block.text):,} characters"), inner)
    who = tag("div", _WHO[block.kind], class_="who")
    return tag("div", who, inner if block.text else None, _pictures(block), class_=f"talk {block.kind}")


def _call(block: TranscriptBlock) -> Markup:
    took = "" if block.seconds is None else f" · {seconds(block.seconds)}"
    head = tag(
        "summary",
        tag("span", "tool call ", class_="soft"),
        tag("code", block.tool or ""),
        tag("span", f"{' · error' if block.is_error else ''}{took}", class_="soft"),
    )
    inner = (tag("div", "arguments", class_="who"), tag("pre", block.text), tag("div", "result", class_="who"))
    result = tag("pre", block.result or "")
    # Pictures are what a reader comes for; they stay in view.
    opened = tag("details", head, *inner, result)
    return tag("div", opened, _pictures(block), class_="talk error" if block.is_error else "talk call")


def _pictures(block: TranscriptBlock) -> Markup | None:
    if not (block.pictures or block.not_shown):
        return None
    return join(map(_picture, block.pictures), (tag("p", f"[{why}]", class_="soft") for why in block.not_shown))


def _picture(picture: Picture) -> Markup:
    source = f"data:{picture.mime_type};base64,{picture.base64}"
    return tag("img", src=source, alt="A picture of the conversation", loading="lazy")
