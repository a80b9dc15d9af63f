"""Types for values of an `env.toml`, and checks that its sections share."""

from functools import lru_cache
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rollouthub.values import Frozen

Words = Annotated[tuple[str, ...], Field(min_length=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str]
Seconds = Annotated[float, Field(gt=0, le=3600)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=40)]
Author = Annotated[str, Field(pattern=r"^[^<>\s][^<>\n]*( <[^@\s<>]+@[^@\s<>]+>)?$", max_length=200)]


def _address(url: str) -> str:
    if not urlsplit(url).hostname:  # which raises ValueError, too
        raise ValueError("it names no host")
    return url


Url = Annotated[str, Field(pattern=r"^https?://\S+$"), AfterValidator(_address)]


@lru_cache(maxsize=256)
def _licence(expression: str) -> str:
    # Its table of licences is read only by who declares one.
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(expression)
    except InvalidLicenseExpression as error:
        raise ValueError(
            f"this is no SPDX licence expression ({error}); write for example MIT, Apache-2.0 OR MIT, or "
            "LicenseRef-NAME for one of your own"
        ) from error


Licence = Annotated[str, Field(max_length=200), AfterValidator(_licence)]


def at(key: str, said: str) -> PydanticCustomError:
    """Return a validation error about one key of a section, raised by the section's own validator."""
    # Not as the template: the text may hold braces.
    return PydanticCustomError("placed", "{said}", {"said": said, "key": key})


def exactly_one(section: Frozen, keys: tuple[str, ...]) -> None:
    """Raise ValueError unless a section has exactly one of some keys."""
    given = [key for key in keys if getattr(section, key) is not None]
    if len(given) != 1:
        named = ", ".join(f"`{key}`" for key in keys)
        raise ValueError(f"give exactly one of {named}; {' and '.join(given) or 'none'} is there")


def only_with(section: Frozen, owner: str, keys: tuple[str, ...]) -> None:
    """Raise ValueError where a section has one of `keys` but not the key `owner`, which gives them their meaning."""
    for key in keys:
        if getattr(section, key) and getattr(section, owner) is None:
            raise ValueError(f"`{key}` goes with `{owner}` alone")
