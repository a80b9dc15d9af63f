"""Describes rewards of spans in words."""

from collections.abc import Iterator, Sequence

from rollouthub.score import SpanReward

_MOST = 8
"""Most spans of a turn that are described one by one."""


def span_words(spans: Sequence[SpanReward]) -> Iterator[str]:
    """Describe which tokens or characters of a turn got a reward: a few spans one by one, the others by their sum."""
    for span in spans[:_MOST]:
        yield f"{span.unit}s {span.start} to {span.end - 1} {span.reward:+g}"
    if rest := spans[_MOST:]:
        yield f"{len(rest):,} more spans {sum(span.reward for span in rest):+g}"
