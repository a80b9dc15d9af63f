"""`tokens.json`: a user's tokens, each sent to its own registry only, and never shown."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from rollouthub.errors import CredentialError
from rollouthub.store.atomic_files import replace_file
from rollouthub.values import Frozen
from rollouthub_registry.client.address import folder_of, registry_url
from rollouthub_registry.client.registries import VARIABLE
from rollouthub_registry.user_file import locked_file, read_private

FILE_NAME = "tokens.json"
TOKEN_VARIABLE = "ROLLOUTHUB_REGISTRY_TOKEN"
"""Environment variable with a token for the registry that `$ROLLOUTHUB_REGISTRY` names."""
_MOST_BYTES = 2**20
_FORM = re.compile(r"[!-~]{1,500}", re.ASCII)


class _TokensFile(Frozen):
    schema_version: int = Field(default=1, ge=1, le=1)
    tokens: dict[str, str] = Field(default={}, repr=False)
    """URL of a registry → its token."""


def token_for(url: str, config_folder: Path, environ: Mapping[str, str]) -> str | None:
    """The token for the registry at a URL; None if there is none.

    Raises:
        CredentialError: the file can be read by others or is damaged, or the variable with the token is set without its
            registry.
    """
    url = registry_url(url)
    if folder_of(url) is not None:
        return None
    if given := environ.get(TOKEN_VARIABLE):
        named = environ.get(VARIABLE)
        if not named:
            raise CredentialError(f"${TOKEN_VARIABLE} is set, but not for which registry; set ${VARIABLE} to its URL")
        if registry_url(named) == url:
            return check_form(given, f"${TOKEN_VARIABLE}")
    return _read(config_folder / FILE_NAME).tokens.get(url)


def keep_token(url: str, token: str, config_folder: Path) -> None:
    """Store a token for a registry in a file that only its owner can read.

    Raises:
        CredentialError: the text cannot be a token, or the file cannot be changed.
    """
    check_form(token, "this")
    _change(config_folder, registry_url(url), token)


def forget_token(url: str, config_folder: Path) -> bool:
    """Delete the token for a registry; returns whether there was one.

    Raises:
        CredentialError: the file cannot be changed.
    """
    return _change(config_folder, registry_url(url), None)


def check_form(token: str, what: str) -> str:
    """Check that a text can be a token; errors do not repeat it.

    Raises:
        CredentialError: it has not the form of one.
    """
    if not _FORM.fullmatch(token):
        raise CredentialError(f"{what} is no token: it is empty, has spaces or line feeds in it, or is too long")
    return token


def _read(file: Path) -> _TokensFile:
    try:
        return _TokensFile.model_validate_json(read_private(file, _MOST_BYTES, "get new tokens"))
    except FileNotFoundError:
        return _TokensFile()
    except OSError as error:
        raise CredentialError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValidationError:
        # Without the cause, whose text may hold what the file holds.
        raise CredentialError(f"{file} is damaged, or of a newer hub; move it away and run `hub login` again") from None


def _change(config_folder: Path, url: str, token: str | None) -> bool:
    file = config_folder / FILE_NAME
    if token is None and not file.exists():
        return False
    with locked_file(file, CredentialError):
        known = dict(_read(file).tokens)
        was_there = known.pop(url, None) is not None
        if token is not None:
            known[url] = token
        text = json.dumps(_TokensFile(tokens=known).model_dump(mode="json"), indent=2)
        replace_file(file, text.encode(), is_private=True, is_durable=True)
    return was_there
