"""Searches several registries at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import anyio

from rollouthub.errors import ConfigError, HubError, UnknownNameError
from rollouthub_registry.client.client_error import RegistryFault
from rollouthub_registry.client.offer import Hit
from rollouthub_registry.client.registries import Registries
from rollouthub_registry.client.source import open_source
from rollouthub_registry.server.search import ORDERS

_REGISTRY_SECONDS = 60.0


@dataclass(frozen=True)
class SearchRequest:
    """A search over several registries."""

    words: str
    sort: str | None = None
    tag: str | None = None
    limit: int = 20


@dataclass(frozen=True)
class Findings:
    """The hits of the registries that answered, and the errors of the others."""

    hits: list[Hit]
    failures: dict[str, HubError] = field(default_factory=dict[str, HubError])
    """URL of each registry that failed → its error."""


def check_order(sort: str | None) -> None:
    """Check that a search order with this name exists.

    Raises:
        UnknownNameError: it does not.
    """
    if sort is not None and sort not in ORDERS:
        raise UnknownNameError("order", sort, ORDERS)


async def find(urls: Sequence[str], asked: SearchRequest) -> Findings:
    """Search all registries at once; one that fails does not prevent the others' results.

    Raises:
        ConfigError: there is no registry to ask.
    """
    if not urls:
        raise ConfigError("no registry is named; `hub registry add URL` names one, or --registry URL for this time")
    found, failures = dict[str, list[Hit]](), dict[str, HubError]()

    async def ask(url: str) -> None:
        try:
            with anyio.fail_after(_REGISTRY_SECONDS):
                async with open_source(url) as source:
                    found[url] = await source.search(asked.words, asked.limit, asked.sort, asked.tag)
        except HubError as error:
            failures[url] = error
        except TimeoutError:
            failures[url] = RegistryFault(f"the registry {url} is too slow: given up after {_REGISTRY_SECONDS:g} s")

    async with anyio.create_task_group() as tasks:
        for url in urls:
            tasks.start_soon(ask, url)
    hits = _merged([found[url] for url in urls if url in found], asked.sort)
    return Findings(hits[: asked.limit], {url: failures[url] for url in urls if url in failures})


def is_chosen(hit: Hit, registries: Registries) -> bool:
    """Whether the package would be installed from the registry that offers this hit."""
    namespace = hit.offer.release.package.namespace
    entry = next((each for each in registries.entries if each.matches(namespace)), None)
    return entry is not None and entry.url == hit.source


def _merged(lists: Sequence[list[Hit]], sort: str | None) -> list[Hit]:
    """The hits of several registries in one list; in the order by fit, which is each registry's own, they alternate."""
    turns = [hit for hits in zip_longest(*lists) for hit in hits if hit is not None]
    match sort:
        case "name":
            return sorted(turns, key=lambda hit: str(hit.offer.release.package))
        case "downloads":
            return sorted(turns, key=lambda hit: -hit.offer.downloads)
        case "updated":
            return sorted(turns, key=lambda hit: hit.offer.published_at, reverse=True)
        case "hardest" | "easiest":
            sign = 1 if sort == "easiest" else -1
            return sorted(turns, key=lambda hit: _by_difficulty(hit, sign))
        case _:
            return turns


def _by_difficulty(hit: Hit, sign: int) -> tuple[bool, float]:
    difficulty = hit.offer.difficulty
    return difficulty is None, sign * (difficulty or 0.0)
