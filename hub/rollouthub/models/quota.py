"""A provider's remaining rate limits, from the headers of its answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_REQUESTS, _TOKENS = "requests", "tokens"
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST = 40
"""Most characters of a duration."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Allowance:
    """One of a provider's rate limits, as reported in an answer's headers."""

    left: int
    """Remaining requests or tokens."""
    limit: int | None
    """The whole limit; None if the provider does not report it."""
    full_in_seconds: float | None
    """Seconds until the whole limit is available again; None if not reported."""

    @property
    def used(self) -> float | None:
        """The share that is used, from 0 to 1; None if the limit is unknown."""
        return None if not self.limit else min(max(1.0 - self.left / self.limit, 0.0), 1.0)

    @property
    def next_in_seconds(self) -> float:
        """Seconds until one more request or token is available, assuming that the used ones return at a steady rate."""
        used = self.limit - self.left if self.limit is not None else 1
        return (1.0 if self.full_in_seconds is None else self.full_in_seconds) / max(used, 1)


@dataclass(frozen=True, slots=True)
class Quota:
    """The provider's rate limits as reported with one answer."""

    requests: Allowance | None
    tokens: Allowance | None


@runtime_checkable
class MeteredModel(Protocol):
    """A model that stores the rate limits reported with the last answer."""

    quota: Quota | None


def parse_quota(headers: Mapping[str, str]) -> Quota | None:
    """Parse the rate-limit headers of OpenAI and compatible providers (`x-ratelimit-remaining-requests` …).

    https://platform.openai.com/docs/guides/rate-limits, "Rate limits in headers".
    """
    if "x-ratelimit-remaining-requests" not in headers and "x-ratelimit-remaining-tokens" not in headers:
        return None
    return Quota(_allowance(headers, _REQUESTS), _allowance(headers, _TOKENS))


def _allowance(headers: Mapping[str, str], kind: str) -> Allowance | None:
    left = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
    if left is None:
        return None
    limit = _number(headers.get(f"x-ratelimit-limit-{kind}"))
    return Allowance(left, limit, _seconds(headers.get(f"x-ratelimit-reset-{kind}")))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def _seconds(text: str | None) -> float | None:
    """Seconds of a duration such as `6m0s`, `120ms` or a plain number."""
    if not text or len(text) > _LONGEST:
        return None
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None  # larger ones are dates
