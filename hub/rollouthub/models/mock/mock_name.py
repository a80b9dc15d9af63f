"""The names of mock models: `mock/KIND?key=value&…`; the name holds all settings."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from rollouthub.errors import ConfigError, UnknownNameError

KINDS = ("echo", "say", "script", "solver", "submitter")
"""`echo` repeats the last user message; `say` always answers `text`; `solver` calls the first tool and answers with
its result; `submitter` submits that result through `submit`; `script` plays the turns of `file`.
"""

_SHARES = ("fail", "ratelimit", "accuracy")
_KEYS = (*_SHARES, "latency", "retry_after", "context", "seed", "text", "file", "tool")
_ONLY = {"text": ("say",), "file": ("script",), "tool": ("solver", "submitter")}


@dataclass(frozen=True)
class MockName:
    """The settings in a mock model's name."""

    kind: str
    latency_seconds: tuple[float, float] = (0.0, 0.0)
    """`latency=0.2` or `latency=0.1..0.5`: seconds that each answer takes, drawn uniformly from the range."""
    fail: float = 0.0
    """`fail=0.3`: the share of calls that end in a simulated HTTP 500."""
    ratelimit: float = 0.0
    """`ratelimit=0.1`: the share of calls that end in a simulated HTTP 429."""
    retry_after_seconds: float = 1.0
    """`retry_after=0`: the seconds in the `Retry-After` of a 429."""
    accuracy: float = 1.0
    """`accuracy=0.7`: the share of conversations whose final answer is right; solver and submitter only."""
    context: int | None = None
    """`context=4096`: the context length in tokens; a longer conversation is refused, and answers are truncated to
    fit.
    """
    seed: int = 0
    """`seed=7`: the seed of all random choices above."""
    text: str = ""
    """`text=hello`: the answer of `say`."""
    file: Path = Path()
    """`file=turns.json`: the script that `script` plays."""
    tool: str = ""
    """`tool=calculate`: the tool that solver and submitter call instead of the first; a client may have prefixed it
    with a server's name, such as `mcp__env__calculate`.
    """


def parse_mock_name(rest: str) -> MockName:
    """Parse the part of the name after `mock/`. Values are percent-decoded.

    Raises:
        UnknownNameError: no such kind or key.
        ConfigError: a value is invalid.
    """
    kind, _, query = rest.partition("?")
    if kind not in KINDS:
        raise UnknownNameError("mock model", kind, KINDS)
    values: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        if key not in _KEYS:
            raise UnknownNameError("key of a mock model", key, _KEYS)
        if key in values:
            raise ConfigError(f"mock/{rest}: {key!r} is given twice")
        if kind not in _ONLY.get(key, KINDS):
            raise ConfigError(f"mock/{rest}: only mock/{' and mock/'.join(_ONLY[key])} takes {key!r}")
        values[key] = unquote(value)
    if kind == "script" and not values.get("file"):
        raise ConfigError(f"mock/{rest}: a script needs its file, mock/script?file=turns.json")
    shares = {name: _share(rest, name, values[name]) for name in _SHARES if name in values}
    if shares.get("fail", 0.0) + shares.get("ratelimit", 0.0) > 1.0:
        raise ConfigError(f"mock/{rest}: fail and ratelimit together exceed 1")
    return MockName(
        kind,
        latency_seconds=_range(rest, values.get("latency", "0")),
        retry_after_seconds=_number(rest, "retry_after", values.get("retry_after", "1")),
        context=_whole(rest, "context", values["context"]) if "context" in values else None,
        seed=_whole(rest, "seed", values.get("seed", "0")),
        text=values.get("text", ""),
        file=Path(values.get("file", "")),
        tool=values.get("tool", ""),
        **shares,
    )


def _number(rest: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise ConfigError(f"mock/{rest}: {key}={value!r} is not a number of 0 or more")
    return number


def _share(rest: str, key: str, value: str) -> float:
    number = _number(rest, key, value)
    if number > 1.0:
        raise ConfigError(f"mock/{rest}: {key}={value!r} is not between 0 and 1")
    return number


def _whole(rest: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ConfigError(f"mock/{rest}: {key}={value!r} is not a whole number")
    return int(value)


def _range(rest: str, value: str) -> tuple[float, float]:
    low, dots, high = value.partition("..")
    first = _number(rest, "latency", low)
    last = _number(rest, "latency", high) if dots else first
    if last < first:
        raise ConfigError(f"mock/{rest}: latency={value!r} ends before it begins")
    return first, last
