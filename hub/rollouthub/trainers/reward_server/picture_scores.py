"""Turns the return value of a picture scorer into a reply with a value, or a problem, for every picture of the
request.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from rollouthub.errors import VerifierError, describe
from rollouthub.trainers.reward_server.reward_wire import ImageReply, finite_or_none

_MOST_CHARACTERS = 2000
"""Most characters of a scorer's error message in a reply."""


def laid_out(said: Any, places: Sequence[int], problems: list[str | None]) -> ImageReply:
    """The reply from the scorer's return value `said` for the pictures at `places`; a picture without a finite number
    is unscored.

    It can block for long, because `said` may be a lazy iterator or a tensor on a GPU: call it in the scorer's thread.

    Raises:
        VerifierError: `said` is not a list with one number for each picture.
    """
    columns: Mapping[str, Any] = cast(Mapping[str, Any], said) if isinstance(said, Mapping) else {"reward": said}
    components: dict[str, list[float | None]] = {}
    for name, values in columns.items():
        whole: list[float | None] = [None] * len(problems)
        for place, value in zip(places, _listed(name, values, len(places)), strict=True):
            whole[place] = None if isinstance(value, str | bytes) else finite_or_none(value)
        components[str(name)] = whole
    if places and not components:
        raise VerifierError("the scorer gave no numbers")
    rewards = components.get("reward")
    if rewards is None:
        rewards = [_sum([column[place] for column in components.values()]) for place in range(len(problems))]
    for place in places:
        if rewards[place] is None:
            problems[place] = "the scorer gave no finite number for it"
    return ImageReply(rewards=rewards, components=components, problems=problems)


def failed(error: BaseException) -> VerifierError:
    """An exception of the scorer as a `VerifierError`, also if its own text cannot be read."""
    try:
        problem = describe(error)
    except Exception:  # its class is anybody's, too
        problem = type(error).__name__
    return VerifierError(
        f"the scorer of pictures failed: {problem[:_MOST_CHARACTERS].encode(errors='replace').decode()}"
    )


def _listed(name: str, values: Any, count: int) -> list[Any]:
    if not isinstance(values, str | bytes):  # a list of letters, or of numbers that nobody meant
        try:
            found: list[Any] = values.tolist() if hasattr(values, "tolist") else list(islice(values, count + 1))
        except TypeError:
            pass
        else:
            if len(found) != count:
                some = f"{len(found)}" if len(found) <= count else f"more than {count}"
                raise VerifierError(f"the scorer gave {some} numbers of {name!r} for {count} pictures")
            return found
    raise VerifierError(f"the scorer gave {type(values).__name__} as {name!r}, not a list")


def _sum(parts: Sequence[float | None]) -> float | None:
    """The sum of the components; None if one is missing."""
    whole = [part for part in parts if part is not None]
    return finite_or_none(sum(whole)) if whole and len(whole) == len(parts) else None
