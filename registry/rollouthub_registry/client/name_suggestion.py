"""Suggests a package name for a misspelt one."""

import difflib
from contextlib import suppress

from rollouthub.errors import HubError
from rollouthub_registry.client.client_error import NotPublished
from rollouthub_registry.client.offer import Offer
from rollouthub_registry.client.source import Source
from rollouthub_registry.names import PackageName


async def offers_or_nearest(source: Source, package: PackageName) -> list[Offer]:
    """All versions of a package.

    Raises:
        NotPublished: there are none; the message suggests similar names of that registry.
        RegistryFault: the registry did not answer.
    """
    try:
        return await source.offers(package)
    except NotPublished as error:
        if not (near := await _nearest(source, package)):
            raise
        raise NotPublished(f"{error}; did you mean {' or '.join(map(repr, near))}?") from error


async def _nearest(source: Source, package: PackageName) -> list[str]:
    """Names in the registry with similar spelling; none if the registry cannot search."""
    names = set[str]()
    with suppress(HubError):
        for word in (package.namespace, package.name[:3]):
            names |= {str(hit.offer.release.package) for hit in await source.search(word, 100)}
    return difflib.get_close_matches(str(package), sorted(names), n=3, cutoff=0.75)
