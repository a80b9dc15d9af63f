"""`registries.toml`: the registries, and the namespaces that each is the source of. The first match is the only
source.
"""

import os
import re
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from pydantic import Field, ValidationError

from rollouthub.errors import ConfigError, UnknownNameError, invalid_fields
from rollouthub.store.atomic_files import replace_file
from rollouthub.values import Frozen
from rollouthub_registry.client.address import registry_url
from rollouthub_registry.names import parse_namespace
from rollouthub_registry.user_file import locked_file

FILE_NAME = "registries.toml"
VARIABLE = "ROLLOUTHUB_REGISTRY"
"""Environment variable with the URL of a registry for all namespaces that no entry matches."""
ANY = "*"
_HEAD = "# The registries of `hub`, in order: the first whose `namespaces` match is a namespace's one source.\n\n"
_PATTERN = re.compile(r"[a-z0-9*](?:[a-z0-9._*-]*[a-z0-9*])?", re.ASCII)
_LONGEST_PATTERN = 60


class Entry(Frozen):
    """One registry in the list."""

    url: str
    namespaces: tuple[str, ...] = Field(default=(ANY,), min_length=1)
    """Patterns of namespaces, such as `lab` or `team-*`."""

    def matches(self, namespace: str) -> bool:
        """Whether this entry matches a namespace; an earlier entry may match it, too."""
        return any(_matches(pattern, namespace) for pattern in self.namespaces)

    def covers(self, pattern: str) -> bool:
        """Whether every namespace that `pattern` matches is matched by one of this entry's own patterns."""
        # What a star stands for is any text, so a pattern read as a text is covered where it matches.
        return any(_matches(own, pattern) for own in self.namespaces)


class _RegistriesFile(Frozen):
    registry: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Registries:
    """The registries of a user, in order of precedence."""

    entries: tuple[Entry, ...]
    file: Path
    """The file they are stored in; the last entry may come from `$ROLLOUTHUB_REGISTRY` instead."""

    @classmethod
    def load(cls, config_folder: Path, environ: Mapping[str, str] | None = None) -> "Registries":
        """Read the list; `environ` defaults to the process's environment.

        Raises:
            ConfigError: the file or the variable is invalid.
        """
        file = config_folder / FILE_NAME
        given = (os.environ if environ is None else environ).get(VARIABLE)
        last = (Entry(url=_said_of(f"${VARIABLE}", given)),) if given else ()
        return cls((*_read(file), *last), file)

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all registries, without duplicates."""
        return tuple(dict.fromkeys(entry.url for entry in self.entries))

    def source_of(self, namespace: str) -> str:
        """The URL of the registry that a namespace comes from.

        Raises:
            ConfigError: no registry matches it.
        """
        parse_namespace(namespace)
        found = next((entry.url for entry in self.entries if entry.matches(namespace)), None)
        if found is None:
            known = f" (there is {', '.join(self.urls)} for others)" if self.entries else ""
            raise ConfigError(
                f"no registry is named for the namespace {namespace!r}{known}; name one with --registry URL, or for "
                f"good with `hub registry add URL --namespace {namespace}`"
            )
        return found


def add_registry(config_folder: Path, url: str, namespaces: Sequence[str] = (), *, first: bool = False) -> Entry:
    """Add a registry at the end of the list, or at its beginning; an existing one gets these namespaces instead of its
    own.

    Raises:
        ConfigError: the URL or a pattern is invalid, or the file cannot be changed.
    """
    entry = Entry(url=registry_url(url), namespaces=tuple(map(_pattern, dict.fromkeys(namespaces))) or (ANY,))
    file = config_folder / FILE_NAME
    with _changing(file) as known:
        others = [each for each in known if each.url != entry.url]
        place = next((index for index, each in enumerate(known) if each.url == entry.url), len(others))
        others.insert(0 if first else place, entry)
        _write(file, others)
    return entry


def remove_registry(config_folder: Path, url: str) -> Entry:
    """Remove a registry from the list.

    Raises:
        UnknownNameError: it is not in the list.
        ConfigError: the file cannot be changed.
    """
    normal, file = registry_url(url), config_folder / FILE_NAME
    with _changing(file) as known:
        found = next((each for each in known if each.url == normal), None)
        if found is None:
            raise UnknownNameError("registry", normal, [each.url for each in known])
        _write(file, [each for each in known if each is not found])
    return found


def _read(file: Path) -> tuple[Entry, ...]:
    try:
        held = _RegistriesFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{file} does not hold: {invalid_fields(error)}") from error
    entries = list[Entry]()
    for place, entry in enumerate(held.registry, 1):
        url = _said_of(f"{file}, registry {place}", entry.url)
        if any(other.url == url for other in entries):
            raise ConfigError(f"{file} names the registry {url} twice; give one entry all of its namespaces")
        try:
            entries.append(Entry(url=url, namespaces=tuple(map(_pattern, entry.namespaces))))
        except ConfigError as error:
            raise ConfigError(f"{file}, registry {place}: {error}") from error
    return tuple(entries)


def _said_of(where: str, url: str) -> str:
    try:
        return registry_url(url)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _pattern(text: str) -> str:
    if len(text) > _LONGEST_PATTERN or not _PATTERN.fullmatch(text):
        raise ConfigError(f"{text[:100]!a} is no namespace; write one in a-z and 0-9, or a pattern such as team-*")
    return text


def _matches(pattern: str, namespace: str) -> bool:
    """Whether a pattern, in which `*` stands for any text, matches a whole namespace."""
    if ANY not in pattern:
        return pattern == namespace
    head, *middle, tail = pattern.split(ANY)
    place, end = len(head), len(namespace) - len(tail)
    if end < place or not (namespace.startswith(head) and namespace.endswith(tail)):
        return False
    for word in middle:
        found = namespace.find(word, place, end)
        if found < 0:
            return False
        place = found + len(word)
    return True


@contextmanager
def _changing(file: Path) -> Generator[tuple[Entry, ...]]:
    with locked_file(file, ConfigError):
        yield _read(file)


def _write(file: Path, entries: Sequence[Entry]) -> None:
    held = {"registry": [entry.model_dump(mode="json") for entry in entries]}
    replace_file(file, (_HEAD + tomli_w.dumps(held)).encode())
