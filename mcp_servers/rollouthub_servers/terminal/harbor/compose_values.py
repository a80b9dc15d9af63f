"""The forms that values of a compose file may have, read into one form each."""

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator

_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])([^{}]*))?\}|(\{))")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Unfilled(ValueError):
    """A value asks for a variable that nobody gives."""


def filled(value: Any, known: Mapping[str, str]) -> Any:
    """A value of a compose file with its `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME:+other}` replaced.

    Raises:
        Unfilled: a variable has neither a value nor a default, or has another form.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _replaced(match, known), value)
    if isinstance(value, list):
        return [filled(each, known) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: filled(each, known) for key, each in cast(dict[Any, Any], value).items()}
    return value


def _replaced(match: re.Match[str], known: Mapping[str, str]) -> str:
    dollar, plain, name, how, other, unread = match.groups()
    if dollar:
        return "$"
    if unread:
        raise Unfilled(
            "a variable is read as $NAME, ${NAME}, ${NAME:-default} or ${NAME:+other}, without braces inside"
        )
    name = plain or name
    is_given = name in known and (known[name] != "" or not (how or "").startswith(":"))
    if how in (":+", "+"):
        return other if is_given else ""
    if is_given:
        return known[name]
    if how in (":-", "-"):
        return filled(other, known)
    raise Unfilled(
        f"'${{{name}}}' asks for a variable of yours; where it may have it, set {name} and add "
        f"""--set 'passes=["{name}"]'"""
    )


def _words(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _mapping(value: object) -> object:
    """`NAME=value` entries as a table, and all values as text."""
    if isinstance(value, list):
        pairs = [str(entry).partition("=") for entry in cast(list[object], value)]
        value = {name: text for name, _, text in pairs}
    if not isinstance(value, dict):
        return value
    return {str(name): _text(each) for name, each in cast(dict[object, object], value).items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _named(value: object) -> object:
    """A list of names as a table without settings."""
    if not isinstance(value, list):
        return value
    return {name: dict[str, object]() for name in cast(list[Any], value)}


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{value!r} is no time such as '10s' or '1m30s'")
    hours, minutes, seconds, thousandths = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _bytes(value: object) -> object:
    if not isinstance(value, str) or not value:
        return value or None
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is no size such as '512m'")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _test(value: object) -> object:
    """A health check's `test` as a command; empty for none."""
    if isinstance(value, str):
        return ["/bin/sh", "-c", value]
    if not isinstance(value, list):
        return value
    if not value:
        return ()
    kind, *words = [str(word) for word in cast(list[object], value)]
    match kind:
        case "NONE":
            return []
        case "CMD":
            return words
        case "CMD-SHELL":
            return ["/bin/sh", "-c", " ".join(words)]
        case _:
            raise ValueError(f"begins with {kind!r}, which is none of CMD, CMD-SHELL and NONE")


def _mount(value: object) -> object:
    """`source:target[:mode]` as a table."""
    if not isinstance(value, str):
        return value
    source, _, rest = value.partition(":")
    target = rest.partition(":")[0]
    if not target:
        return {"type": "volume", "target": source}
    is_path = not source or source[0] in "./~@"
    return {"type": "bind" if is_path else "volume", "source": source, "target": target}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Texts = Annotated[dict[str, str], BeforeValidator(_mapping)]
Duration = Annotated[float, BeforeValidator(_seconds)]
AsBytes = BeforeValidator(_bytes)
Bytes = Annotated[int | None, AsBytes]
Test = Annotated[tuple[str, ...], BeforeValidator(_test)]
AsTable = BeforeValidator(_named)
AsList = BeforeValidator(_listed)
AsMount = BeforeValidator(_mount)
