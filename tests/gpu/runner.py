"""Measures parts one after the other within a time, whatever becomes of each."""

import traceback
from collections.abc import Callable, Sequence

import anyio

from rollouthub.errors import HubError, describe, first_error
from tests.gpu.lab import Lab
from tests.gpu.parts import Part
from tests.gpu.rows import Missing, PartError, Row

CLOSING_SECONDS = 20.0
"""Kept for ending the server and writing the table."""
_NOTE = 400
"""Most characters of an error in the table; the part's log has the rest."""


async def measure_parts(lab: Lab, parts: Sequence[Part], seconds: float) -> None:
    """Measure parts within so many seconds. A part that fails is noted, and the others go on; what is not reached is
    noted, too.
    """
    end = anyio.current_time() + seconds - CLOSING_SECONDS
    for part in parts:
        left = end - anyio.current_time()
        lab.part = part.name
        if left < part.least_seconds:
            lab.not_tried(part.about, f"not reached: {max(left, 0):.0f} s were left, it needs {part.least_seconds:.0f}")
            continue
        await _measure(lab, part, min(part.most_seconds * lab.amounts.patience, left))
    await lab.engines.end()


async def _measure(lab: Lab, part: Part, seconds: float) -> None:
    lab.say(f"{part.name}: {part.about}; at most {seconds:.0f} s")
    with anyio.move_on_after(seconds) as scope:
        lab.ends_at = scope.deadline
        try:
            await part.measure(lab)
        except Missing as error:
            lab.not_tried(part.about, str(error))
        except (PartError, HubError) as error:
            lab.add(Row(lab.part, part.about, "failed", note=_short(str(error))))
        except Exception as error:  # of whatever a part meets: the others are to be measured, too
            log = lab.folder / f"{part.name}.log"
            with log.open("a") as file:
                traceback.print_exception(error, file=file)
            told = describe(first_error(error) if isinstance(error, BaseExceptionGroup) else error)
            lab.add(Row(lab.part, part.about, "failed", note=_short(f"{told}; {log} has the traceback")))
    if scope.cancelled_caught:
        lab.add(Row(lab.part, part.about, "failed", note=f"ended after {seconds:.0f} s, before it was over"))


def chosen_parts(
    parts: Sequence[Part], only: Sequence[str], *, has_given: bool, refuse: Callable[[str], None]
) -> list[Part]:
    """The parts that are asked for, in the order of their worth; `refuse` is told what is wrong with the choice."""
    names = [part.name for part in parts]
    if unknown := [name for name in only if name not in names]:
        refuse(f"no part is called {unknown[0]!r}; there are: {', '.join(names)}")
    lacking = [part.name for part in parts if part.asks_given and part.name in only and not has_given]
    if lacking:
        refuse(f"{lacking[0]} is about a small trained model: name its folder with --model")
    return [part for part in parts if (part.name in only if only else has_given or not part.asks_given)]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _NOTE else f"{flat[: _NOTE // 4]} … {flat[-(3 * _NOTE) // 4 :]}"
