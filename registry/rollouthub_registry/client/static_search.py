"""Full-text search in a registry of plain files, with the same ranking as a server's."""

import math
import re
from collections.abc import Iterable

from rollouthub_registry.client.offer import Hit, Offer

_MOST_WORDS = 12


def best_hits(
    url: str, offers: Iterable[Offer], words: str, limit: int, sort: str | None = None, tag: str | None = None
) -> list[Hit]:
    """Offers whose texts contain every word, one per package."""
    wanted = _words(words)[:_MOST_WORDS]
    found = [
        (offer, fit) for offer in offers if (tag is None or tag in offer.tags) and (fit := _fit(offer, wanted)) > 0
    ]
    if words.strip() and not wanted:
        found = []
    found.sort(key=lambda each: str(each[0].release.package))
    match sort or "relevance":
        case "relevance":
            found.sort(key=lambda each: -each[1] * (1 + _quality(each[0])))
        case "downloads":
            found.sort(key=lambda each: -each[0].downloads)
        case "updated":
            found.sort(key=lambda each: each[0].published_at, reverse=True)
        case "hardest":
            found.sort(key=lambda each: -_difficulty(each[0], -math.inf))
        case "easiest":
            found.sort(key=lambda each: _difficulty(each[0], math.inf))
        case _:
            pass
    return [Hit(source=url, offer=offer) for offer, _ in found[:limit]]


def _fit(offer: Offer, wanted: list[str]) -> float:
    """How well an offer matches the words: 0 if one is missing, 1 if there are no words."""
    if not wanted:
        return 1.0
    fields = (
        (8.0, _words(str(offer.release.package))),
        (3.0, _words(offer.description)),
        (4.0, _words(" ".join((*offer.tags, *offer.splits)))),
    )
    fit = 0.0
    for word in wanted:
        best = max((weight for weight, there in fields if any(each.startswith(word) for each in there)), default=0.0)
        if not best:
            return 0.0
        fit += best
    return fit / len(wanted)


def _quality(offer: Offer) -> float:
    return (0.5 if offer.checks_passed else 0.0) + (0.25 if offer.baselines else 0.0)


def _difficulty(offer: Offer, unknown: float) -> float:
    return unknown if offer.difficulty is None else offer.difficulty


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())
