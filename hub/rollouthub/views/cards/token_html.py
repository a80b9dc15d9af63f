"""The sampled tokens of a turn as HTML: the text itself, with each token's probability as heat behind it."""

import math
import re
from collections.abc import Sequence
from html import escape

from rollouthub.statistics.amounts import count, share
from rollouthub.text import printable
from rollouthub.views.cards.token_heat import FORK, STEPS, SampledTokens, probability_of, step_of
from rollouthub.views.markup import Markup, join, tag

MOST_TOKENS = 4000
"""Most tokens of one turn that are shown one by one."""
_CHANGED = re.compile("[&<>\"'\n]").search
_TEXTLESS = "▫"
"""A token that holds none of the answer's text, such as the end of the answer or a part of a tool call."""
NOT_KNOWN = (
    "the backend did not say which characters each token holds, so tokens are shown by their ids, below their text"
)


def tokens_html(tokens: SampledTokens, most: int = MOST_TOKENS, advantage: float | None = None) -> Markup:
    """The tokens of a turn, at most `most`; underlined are those learnt from, by the sign of the advantage."""
    shown = min(len(tokens.ids), most)
    texts = None if tokens.texts is None else _shown_texts(tokens.texts[:shown], tokens.turn.response.text)
    parts = [_token(tokens, place, texts) for place in range(shown)]
    left = len(tokens.ids) - shown
    sign = "" if not advantage else " raised" if advantage > 0 else " lowered"
    return tag(
        "div",
        tag("p", " · ".join(_facts(tokens, advantage)), class_="soft"),
        tag("div", Markup("".join(parts)), class_=f"heat{sign}{'' if texts is not None else ' ids'}"),
        tag("p", f"… {count(left, 'more token')}", class_="soft") if left else None,
        class_="tokens",
    )


def _facts(tokens: SampledTokens, advantage: float | None) -> list[str]:
    masked = sum(not tokens.is_learnt(place) for place in range(len(tokens.ids))) if tokens.mask is not None else 0
    mean = tokens.mean_logprob
    forks = len(tokens.forks)
    facts = [
        count(len(tokens.ids), "sampled token"),
        "no logprobs" if mean is None else f"mean logprob {mean:.3f}, perplexity {math.exp(min(50.0, -mean)):.2f}",
        f"{count(forks, 'fork')} (a token below {FORK:.0%})" if mean is not None else "",
        f"{count(masked, 'token')} masked: not learnt from" if masked else "",
        f"advantage {advantage:+.3f}" if advantage is not None else "",
        _policy(tokens),
        NOT_KNOWN if tokens.texts is None and tokens.ids else "",
    ]
    return [fact for fact in facts if fact]


def _policy(tokens: SampledTokens) -> str:
    span = tokens.turn.version_span
    if span is None:
        return ""
    return f"policy {span[0]}" if span[0] == span[1] else f"policies {span[0]} to {span[1]}"


def _token(tokens: SampledTokens, place: int, texts: Sequence[str] | None) -> str:
    logprob = tokens.logprob(place)
    probability = probability_of(logprob)
    if probability is None:
        kind, told = "hx", "no logprob"
    else:
        kind, told = f"h{step_of(probability)}", f"{share(probability)}, logprob {logprob:.4f}"
    if not tokens.is_learnt(place):
        kind += " masked"
    if probability is not None and probability < FORK:
        kind += " fork"
    version = tokens.version(place)
    policy = "" if version is None else f", policy {version}"
    title = f"token {place + 1:,}: id {tokens.ids[place]}, {told}{policy}"
    shown = str(tokens.ids[place]) if texts is None else texts[place] or _TEXTLESS
    return f'<span class="{kind}" title="{title}">{shown}</span>'


def _shown_texts(texts: Sequence[str], whole: str) -> list[str]:
    """The texts of tokens as HTML. A page may have tens of thousands: what needs no change is looked for first."""
    is_clean = printable(whole) == whole
    cleaned = texts if is_clean else map(printable, texts)
    # A line break stays one, after a sign that it was sampled.
    return [escape(text).replace("\n", "↵\n") if _CHANGED(text) else text for text in cleaned]


def heat_legend() -> Markup:
    """What the colours and signs mean."""
    steps = [
        tag("span", f"≥ {bound:.0%}" if bound else "less", class_=f"h{place}")
        for place, bound in enumerate((*STEPS, 0.0))
    ]
    signs = [
        tag("span", "fork", class_="h6 fork"),
        tag("span", "not learnt from", class_="h0 masked"),
        tag("span", f"{_TEXTLESS} no text of the answer"),
    ]
    return tag("p", "Probability of each token: ", join(*steps, *signs), class_="legend heat")
