"""`registries.toml`: which registry a namespace comes from. The first entry that matches is its one source."""

import os
import re
import secrets
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.frozen import Frozen
from rollouthub_registry.client.address import registry_url
from rollouthub_registry.names import parse_namespace

FILE_NAME = "registries.toml"
VARIABLE = "ROLLOUTHUB_REGISTRY"
"""A registry to ask for what no other is named for."""
ANY = "*"
_HEAD = "# The registries of `hub`, in order: the first whose `namespaces` match is a namespace's one source.\n\n"
_LOCK_SECONDS = 10
_PATTERN = re.compile(r"[a-z0-9*](?:[a-z0-9._*-]*[a-z0-9*])?", re.ASCII)
_LONGEST_PATTERN = 60


class Entry(Frozen):
    """One registry."""

    url: str
    namespaces: tuple[str, ...] = Field(default=(ANY,), min_length=1)
    """Patterns such as `lab` or `team-*`."""

    def matches(self, namespace: str) -> bool:
        """Whether a namespace comes from here, unless an earlier entry matches, too."""
        return any(_matches(pattern, namespace) for pattern in self.namespaces)

    def covers(self, pattern: str) -> bool:
        """Whether everything that a pattern matches comes from here, as far as one of its own patterns says so."""
        # What a star stands for is any text, so a pattern read as a text is covered where it matches.
        return any(_matches(own, pattern) for own in self.namespaces)


class _File(Frozen):
    registry: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Registries:
    """The registries of a user, in order of precedence."""

    entries: tuple[Entry, ...]
    file: Path
    """Where they are written; the last may be `$ROLLOUTHUB_REGISTRY` instead."""

    @classmethod
    def load(cls, config_folder: Path, environ: Mapping[str, str] | None = None) -> "Registries":
        """Read them; `environ` is the process's environment unless another is given.

        Raises:
            ConfigError: the file or the variable does not hold.
        """
        file = config_folder / FILE_NAME
        given = (os.environ if environ is None else environ).get(VARIABLE)
        last = (Entry(url=_said_of(f"${VARIABLE}", given)),) if given else ()
        return cls((*_read(file), *last), file)

    @property
    def urls(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(entry.url for entry in self.entries))

    def source_of(self, namespace: str) -> str:
        """The URL of the one registry that a namespace comes from.

        Raises:
            ConfigError: none is named for it.
        """
        parse_namespace(namespace)
        found = next((entry.url for entry in self.entries if entry.matches(namespace)), None)
        if found is None:
            known = f" (there is {', '.join(self.urls)} for others)" if self.entries else ""
            raise ConfigError(
                f"no registry is named for the namespace {namespace!r}{known}; name one with --from URL, or for good "
                f"with `hub registry add URL --namespace {namespace}`"
            )
        return found


def add_registry(config_folder: Path, url: str, namespaces: Sequence[str] = (), *, first: bool = False) -> Entry:
    """Add a registry as the last one, or the first; one that is there already is given these namespaces.

    Raises:
        ConfigError: the URL or a pattern does not hold, or the file cannot be changed.
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
    """Take a registry out.

    Raises:
        UnknownNameError: it is not there.
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
        held = _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(step) for step in problem["loc"])
        raise ConfigError(f"{file} does not hold: {key}: {problem['msg']}") from error
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
    """Whether a pattern, in which `*` is any text, is all of a namespace; looked for from left to right."""
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
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            yield _read(file)
    except Timeout as error:
        raise ConfigError(f"{file} is held by another process for more than {_LOCK_SECONDS} s") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be changed: {error.strerror or error}") from error


def _write(file: Path, entries: Sequence[Entry]) -> None:
    beside = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        held = {"registry": [entry.model_dump(mode="json") for entry in entries]}
        beside.write_text(_HEAD + tomli_w.dumps(held), encoding="utf-8")
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
