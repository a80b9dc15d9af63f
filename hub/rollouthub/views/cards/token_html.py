"""The sampled tokens of a turn as HTML: the text itself, with each token's probability as heat behind it."""

import math
from collections.abc import Sequence
from html import escape
from itertools import count as count_from
from itertools import repeat

from rollouthub.statistics.amounts import count, share
from rollouthub.text import printable
from rollouthub.views.cards.token_heat import FORK, STEPS, SampledTokens, probability_of, step_of
from rollouthub.views.markup import Markup, join, tag

MOST_TOKENS = 4000
"""Most tokens of one turn that are shown one by one."""
_TEXTLESS = "▫"
"""A token that holds none of the answer's text, such as the end of the answer or a part of a tool call."""
NOT_KNOWN = (
    "the backend did not say which characters each token holds, so tokens are shown by their ids, below their text"
)


def tokens_html(tokens: SampledTokens, most: int = MOST_TOKENS, advantage: float | None = None) -> Markup:
    """The tokens of a turn, at most `most`; underlined are those learnt from, by the sign of the advantage."""
    shown = min(len(tokens.ids), most)
    texts = None if tokens.texts is None else _shown_texts(tokens.texts[:shown], tokens.turn.response.text)
    left = len(tokens.ids) - shown
    sign = "" if not advantage else " raised" if advantage > 0 else " lowered"
    return tag(
        "div",
        tag("p", " · ".join(_facts(tokens, advantage)), class_="soft"),
        tag(
            "div",
            Markup("".join(_spans(tokens, shown, texts))),
            class_=f"heat{sign}{'' if texts is not None else ' ids'}",
        ),
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


class _TokenWords(dict["float | None", tuple[str, str]]):
    """Log-probability → the classes of its tokens, and what is said of it: many tokens have the same one."""

    def __missing__(self, logprob: float | None) -> tuple[str, str]:
        probability = probability_of(logprob)
        if probability is None:
            found = "hx", "no logprob"
        else:
            fork = " fork" if probability < FORK else ""
            found = f"h{step_of(probability)}{fork}", f"{share(probability)}, logprob {logprob:.4f}"
        self[logprob] = found
        return found


def _spans(tokens: SampledTokens, most: int, texts: Sequence[str] | None) -> list[str]:
    """The first tokens. A page may have tens of thousands, so that each is made at a stroke of what is prepared."""
    ids = tokens.ids[:most]
    found = map(_TokenWords().__getitem__, tokens.logprobs or repeat(None))
    masked = repeat("") if tokens.mask is None else ["" if learnt else " masked" for learnt in tokens.mask]
    versions = repeat(tokens.turn.policy_version) if tokens.versions is None else tokens.versions
    policies = ("" if version is None else f", policy {version}" for version in versions)
    shown = map(str, ids) if texts is None else texts
    return [
        f'<span class="{kind}{mask}" title="token {number:,}: id {token}, {told}{policy}">{text or _TEXTLESS}</span>'
        for number, token, (kind, told), mask, policy, text in zip(
            count_from(1), ids, found, masked, policies, shown, strict=False
        )
    ]


def _shown_texts(texts: Sequence[str], whole: str) -> list[str]:
    """The texts of tokens as HTML, escaped as one text: none of them has a null character by then."""
    cleaned = texts if printable(whole) == whole else map(printable, texts)
    # A line break stays one, after a sign that it was sampled.
    return escape("\0".join(cleaned)).replace("\n", "↵\n").split("\0")


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
