"""Weight versions of an answer's tokens, as vLLM and SGLang report them: spans of tokens with one version each."""

from collections.abc import Sequence

from msgspec import Struct

_MOST_DIGITS = 9


class WeightSpan(Struct, gc=False):
    """Tokens from `start` to before `end` that were sampled with weights of one version."""

    version: int | str
    start: int
    end: int


def version_number(version: int | str | None) -> int | None:
    """A version that is a number; other marks (`default`, a hash) cannot be compared and give None."""
    text = "" if version is None else str(version)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def span_versions(spans: Sequence[WeightSpan], count: int) -> list[int] | None:
    """The version of each of `count` tokens; None if one is no number, or the spans do not cover all tokens."""
    versions: list[int] = []
    for span in spans:
        number = version_number(span.version)
        if number is None or span.start != len(versions) or not span.start <= span.end <= count:
            return None
        versions += [number] * (span.end - span.start)
    return versions if versions and len(versions) == count else None
