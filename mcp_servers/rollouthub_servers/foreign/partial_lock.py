"""Locks requirements without the distributions that have no wheel and so cannot be installed."""

from collections.abc import Callable, Iterator, Sequence
from email.parser import BytesHeaderParser
from functools import lru_cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rollouthub.errors import UsageError
from rollouthub.plugins.importers import silent
from rollouthub.plugins.lock import LockedDependency
from rollouthub_servers.foreign.requirements import PYTHON, ForeignLock, foreign_home, lock_requirements


def lock_without(
    requirements: Sequence[str], without: Sequence[str], note: Callable[[str], None], beside: Sequence[str] = ()
) -> ForeignLock:
    """Choose what requirements need but for some distributions, which they or their own requirements name. Blocks.

    What is `beside` them names none of those, and is chosen with the rest.

    Raises:
        UsageError: nothing fits together, or no index can be reached.
    """
    if not without:
        return lock_requirements([*requirements, *beside], note)
    absent: set[str] = {canonicalize_name(name) for name in without}
    alone, rest = list[LockedDependency](), list(beside)
    asked = [Requirement(text) for text in requirements]
    if not _apart(asked, absent, alone, rest, note):
        alone.clear()
        rest[:] = beside
        for each in asked:
            alone.append(foreign_home().wheel(_unmarked(each)))
            _apart(list(needs_of(alone[-1], each.extras, note)), absent, alone, rest, note)
    wanted = [text for text in rest if canonicalize_name(Requirement(text).name) not in absent]
    chosen = foreign_home().lock(wanted, note)
    names = {each.name for each in chosen}
    if twice := [each for each in alone if each.name in names]:  # the rest needs them, too: in these versions
        chosen = foreign_home().lock([*wanted, *(f"{each.name}=={each.version}" for each in twice)], note)
        names = {each.name for each in chosen}
    return ForeignLock(python=PYTHON, dependencies=(*(each for each in alone if each.name not in names), *chosen))


@lru_cache(maxsize=256)
def lock_once(requirements: tuple[str, ...], without: tuple[str, ...], beside: tuple[str, ...] = ()) -> ForeignLock:
    """The lock of `lock_without`, resolved once: many environments of a source have the same requirements."""
    return lock_without(requirements, without, silent, beside)


def _apart(
    asked: Sequence[Requirement],
    absent: set[str],
    alone: list[LockedDependency],
    rest: list[str],
    note: Callable[[str], None],
) -> bool:
    """Sort out which of the asked need something absent, and are installed alone; whether there is one."""
    found = False
    for each in asked:
        own: list[Requirement] = []
        try:
            wheel = foreign_home().wheel(_unmarked(each))
            own = list(needs_of(wheel, each.extras, note))
        except UsageError:  # its wheels are for single versions of Python: it is chosen with the rest
            rest.append(_unmarked(each))
            continue
        if any(canonicalize_name(need.name) in absent for need in own):
            found = True
            alone.append(wheel)
            rest += [_unmarked(need) for need in own]
        else:
            rest.append(_unmarked(each))
    return found


def needs_of(wheel: LockedDependency, extras: set[str], note: Callable[[str], None]) -> Iterator[Requirement]:
    """The requirements in a wheel's metadata that apply on this machine."""
    (metadata,) = Path(foreign_home().unpacked(wheel, note)).glob("*.dist-info/METADATA")
    with metadata.open("rb") as stream:
        lines = BytesHeaderParser().parse(stream).get_all("Requires-Dist") or []
    for line in lines:
        needed = Requirement(line)
        chosen = [{"extra": extra} for extra in ("", *extras)]
        if needed.marker is None or any(needed.marker.evaluate(each) for each in chosen):
            yield needed


def _unmarked(needed: Requirement) -> str:
    extras = f"[{','.join(sorted(needed.extras))}]" if needed.extras else ""
    return f"{needed.name}{extras}{needed.specifier}"
