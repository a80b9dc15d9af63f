"""API keys from the environment, or from an untracked `env.yaml` or `.env`; never displayed, pickled or written to a
run.
"""

import logging
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from rollouthub.errors import CredentialError
from rollouthub.models.git_index import is_tracked
from rollouthub.plugins.file_owners import trusted_owners

logger = logging.getLogger(__name__)

FILES = ("env.yaml", ".env")
"""Credential files in the working directory. The first file wins over the second, the environment over both."""

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION|COOKIE)$|(?:^|[._-])AUTH\w*$", re.IGNORECASE
)
_ADDRESS_NAME = re.compile(r"(?:BASE|URL|ENDPOINT|HOST)$", re.IGNORECASE)
# Keys as providers write them: also one that a server echoes, partly starred out, without our having sent it so.
_SECRET_VALUE = re.compile(r"\b(?:sk|hf|key|pk)[-_][A-Za-z0-9_*-]{8,}|(?<=Bearer )[^\s\"']{8,}")
_POLICY = "policy_"
"""The beginning of the names by which NeMo Gym's `env.yaml` names the model that plays."""
_MASK = "[redacted]"
# Masking shorter ones would garble any text, and they protect nothing.
_MIN_SECRET = 6


def is_secret_name(name: str) -> bool:
    """Whether a variable or a setting of this name holds a secret, which is masked wherever it is shown.

    `processes.clean_environment` decides by a stricter rule which variables other processes get.
    """
    return _SECRET_NAME.search(name) is not None


class Credentials:
    """Named values, some of them secret. Its repr, text and pickle contain no value."""

    __slots__ = ("_asked", "_refused", "_secrets", "_values")

    def __init__(self, values: Mapping[str, str] | None = None, refused: Mapping[str, str] | None = None) -> None:
        """`refused` maps a name that must not be returned to the reason."""
        self._values, self._refused = dict(values or {}), dict(refused or {})
        secrets = (value for name, value in self._values.items() if is_secret_name(name))
        self._secrets = _longest_first(secrets)
        self._asked: set[str] = set()

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set and not empty.

        Raises:
            CredentialError: the variable is a server address from a file, and the provider's key comes from elsewhere.
        """
        self._asked.update(names)
        for name in names:
            if value := self._values.get(name, "").strip():
                if name in self._refused:
                    raise CredentialError(self._refused[name])
                return value
        return None

    def asked_for(self) -> dict[str, str]:
        """The variables that were requested so far and are set, for a child process that needs the same. It contains
        secrets.
        """
        return {name: self._values[name] for name in sorted(self._asked - set(self._refused)) if self._values.get(name)}

    def key(self, name: str) -> str | None:
        """A key that is valid in an HTTP header.

        Raises:
            CredentialError: the value has spaces or characters that a header cannot carry.
        """
        value = self.get(name)
        if value is not None and not (value.isascii() and value.isprintable() and " " not in value):
            raise CredentialError(f"{name} holds spaces or characters no key has; set it again, without quotes")
        return value

    def redact(self, text: str) -> str:
        """The text with every known secret, and everything that looks like a provider's key, masked."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return _SECRET_VALUE.sub(_MASK, text)

    def __repr__(self) -> str:
        return f"Credentials({len(self._values)} names)"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials do not leave their process")


def load_credentials(environ: Mapping[str, str], directory: Path) -> Credentials:
    """Read the credential files of a directory; values of the environment override theirs.

    Raises:
        CredentialError: git tracks a file, another user owns or may write to it, or it cannot be read.
    """
    values: dict[str, str] = {}
    places: dict[str, Path | None] = {}
    for name in reversed(FILES):
        path = directory / name
        if path.is_file():
            text = _safe_text(path)
            found = _from_yaml(path, text) if path.suffix == ".yaml" else _from_dotenv(text)
            values |= found
            places |= dict.fromkeys(found, path)
    values |= environ
    places |= dict.fromkeys(environ)
    return Credentials(values, _misdirected(values, places) if any(places.values()) else None)


def _misdirected(values: Mapping[str, str], places: Mapping[str, Path | None]) -> dict[str, str]:
    """Reasons to refuse server addresses in a file whose provider's key comes from another place: the file's author
    could redirect the key to a server of their own.
    """
    refused: dict[str, str] = {}
    for name, place in places.items():
        if place is None or not _ADDRESS_NAME.search(name):
            continue
        provider = name.partition("_")[0] + "_"
        for key, other in places.items():
            if other != place and key.startswith(provider) and is_secret_name(key) and values[key].strip():
                where = "the environment" if other is None else str(other)
                refused[name] = (
                    f"{name} of {place} is not used with {key} of {where}: an address from a file gets keys of the "
                    f"same file alone; give --base-url, set {name} in the environment, or move both into one file"
                )
    return refused


def _longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets long enough to mask, longest first, so that a secret which contains another is masked whole."""
    return tuple(sorted({secret.strip() for secret in secrets if len(secret.strip()) >= _MIN_SECRET}, key=len)[::-1])


def _safe_text(path: Path) -> str:
    """The text of a credential file that git does not track and only trusted users can write."""
    for place in {path, path.resolve()}:
        if is_tracked(place):
            raise CredentialError(
                f"{path} may hold keys, and git tracks it; "
                f"run `git rm --cached {place.name}`, add it to .gitignore, and replace keys already committed"
            )
    try:
        # What is checked is what is read, whoever exchanges the file meanwhile.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            _check_owner(path, {path.lstat().st_uid, found.st_uid}, found.st_mode)
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        # A decoding error would quote the file's bytes.
        raise CredentialError(f"{path} cannot be read as UTF-8 text: {type(error).__name__}") from None


def _check_owner(path: Path, owners: set[int], mode: int) -> None:
    if strangers := sorted(owners - trusted_owners()):
        raise CredentialError(
            f"{path} is not read: user {strangers[0]} owns it, and you are user {os.geteuid()}; "
            f"remove it, work in another folder, or make it yours with `chown`"
        )
    if mode & stat.S_IWOTH:
        raise CredentialError(f"{path} is not read: every user may write to it; look into it, then `chmod 600 {path}`")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        logger.warning("%s may hold keys and can be read by others; run `chmod 600 %s`", path, path.name)


def _from_yaml(path: Path, text: str) -> dict[str, str]:
    import yaml  # 20 ms, and only where such a file is

    try:
        loaded: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        # The parser's own message quotes the file.
        raise CredentialError(f"{path}{where}: not valid YAML") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise CredentialError(f"{path} is not a flat mapping of names to strings, like `OPENAI_API_KEY: …`")
    values: dict[str, str] = {}
    fields = cast(dict[object, object], loaded)
    is_gym = any(str(name).startswith(_POLICY) for name in fields)
    for name, value in fields.items():
        if is_gym and not isinstance(value, str):
            continue  # NeMo Gym's own configuration, which is no credential
        if not isinstance(name, str) or not isinstance(value, str):
            raise CredentialError(f"{path}: the value of {name!r} is not a string; put it in quotes")
        values[name] = value
    return values


def _from_dotenv(text: str) -> dict[str, str]:
    import io

    from dotenv import dotenv_values  # as above

    found = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}
