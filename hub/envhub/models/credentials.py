"""Keys: from the environment, or an untracked `env.yaml` or `.env`; never shown, pickled or written to a run."""

import logging
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from envhub.errors import CredentialError

logger = logging.getLogger(__name__)

FILES = ("env.yaml", ".env")
"""Looked for in the working directory; an entry of the first wins over the second's, the environment over both."""

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
# Keys as providers write them: also one that a server echoes, partly starred out, without our having sent it so.
_SECRET_VALUE = re.compile(r"\b(?:sk|hf|key|pk)[-_][A-Za-z0-9_*-]{8,}|(?<=Bearer )[^\s\"']{8,}")
_MASK = "[redacted]"
# Masking shorter ones would garble any text, and they protect nothing.
_MIN_SECRET = 6


class Credentials:
    """Named values, secret among them. Its repr, text and pickle hold none."""

    __slots__ = ("_asked", "_secrets", "_values")

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        secrets = (value for name, value in self._values.items() if _SECRET_NAME.search(name))
        self._secrets = _longest_first(secrets)
        self._asked: set[str] = set()

    def get(self, *names: str) -> str | None:
        """The first of these that is set and not empty."""
        self._asked.update(names)
        for name in names:
            if value := self._values.get(name, "").strip():
                return value
        return None

    def asked_for(self) -> dict[str, str]:
        """What somebody has asked for and is set: all that another process needs to do the same. Secrets are in it."""
        return {name: self._values[name] for name in sorted(self._asked) if self._values.get(name)}

    def key(self, name: str) -> str | None:
        """A key, fit to be sent in a header.

        Raises:
            CredentialError: it holds characters no header can carry.
        """
        value = self.get(name)
        if value is not None and not (value.isascii() and value.isprintable() and " " not in value):
            raise CredentialError(f"{name} holds spaces or characters no key has; set it again, without quotes")
        return value

    def redact(self, text: str) -> str:
        """The text with every known secret masked, and whatever looks like a provider's key."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return _SECRET_VALUE.sub(_MASK, text)

    def __repr__(self) -> str:
        return f"Credentials({len(self._values)} names)"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials do not leave their process")


def load_credentials(environ: Mapping[str, str], directory: Path) -> Credentials:
    """Read the environment, and the files of a directory under it.

    Raises:
        CredentialError: git tracks a file, or it cannot be read.
    """
    values: dict[str, str] = {}
    for name in reversed(FILES):
        path = directory / name
        if path.is_file():
            _check_safety(path)
            values |= _from_yaml(path) if path.suffix == ".yaml" else _from_dotenv(path)
    return Credentials({**values, **environ})


def _longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets worth masking; a longer one first, so that one which contains another leaves no rest."""
    return tuple(sorted({secret.strip() for secret in secrets if len(secret.strip()) >= _MIN_SECRET}, key=len)[::-1])


def _check_safety(path: Path) -> None:
    for place in {path, path.resolve()}:
        if _is_tracked(place):
            raise CredentialError(
                f"{path} may hold keys, and git tracks it; "
                f"run `git rm --cached {place.name}`, add it to .gitignore, and replace keys already committed"
            )
    if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        logger.warning("%s may hold keys and can be read by others; run `chmod 600 %s`", path, path.name)


def _is_tracked(path: Path) -> bool:
    git = shutil.which("git")
    if git is None:
        return False
    command = [git, "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "ls-files", "--error-unmatch", "--"]
    try:
        found = subprocess.run([*command, path.name], cwd=path.parent, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CredentialError(f"could not ask git whether it tracks {path}: {type(error).__name__}") from error
    return found.returncode == 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # A decoding error would quote the file's bytes.
        raise CredentialError(f"{path} cannot be read as UTF-8 text: {type(error).__name__}") from None


def _from_yaml(path: Path) -> dict[str, str]:
    import yaml  # 20 ms, and only where such a file is

    try:
        loaded: Any = yaml.safe_load(_text(path))
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
    for name, value in cast(dict[object, object], loaded).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise CredentialError(f"{path}: the value of {name!r} is not a string; put it in quotes")
        values[name] = value
    return values


def _from_dotenv(path: Path) -> dict[str, str]:
    import io

    from dotenv import dotenv_values  # as above

    found = dotenv_values(stream=io.StringIO(_text(path)), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}
