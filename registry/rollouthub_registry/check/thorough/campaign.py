"""Runs all attacks on one environment in sequence, within a time limit."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import anyio

from rollouthub.errors import describe
from rollouthub_registry.check.thorough.attack import Attack, AttackResult, NotTried, State, Vulnerability
from rollouthub_registry.check.thorough.attack_context import AttackContext

_MOST_PROBLEMS = 12

OnAttack = Callable[[Attack, AttackResult | None], None]
"""Called when an attack begins (with None), and when it ended with a result."""


async def attack_all(
    context: AttackContext,
    attacks: Sequence[Attack],
    deadline: float,
    on_attack: OnAttack,
    verdicts: list[AttackResult],
) -> None:
    """Make every attack; results are stored as they come, so that an interruption loses none.

    `deadline` is in seconds of the event loop's clock; attacks that have not begun by then are not tried.
    """
    for attack in attacks:
        on_attack(attack, None)
        verdict = await make_attack(context, attack, deadline - anyio.current_time())
        verdicts.append(verdict)
        on_attack(attack, verdict)


async def make_attack(context: AttackContext, attack: Attack, seconds: float = math.inf) -> AttackResult:
    """Make one attack and give its result."""
    if seconds <= 0:
        return _not_tried(attack, "the time limit was reached before; give more with --time-limit")
    context.new_attack()
    began, says, state, is_cut = time.monotonic(), "", None, False
    try:
        with anyio.fail_after(min(seconds, attack.seconds)):
            says = await attack.run(context)
    except NotTried as reason:
        state, says = "not_tried", str(reason)
    except TimeoutError:
        state, is_cut, says = "not_tried", True, f"not done after {min(seconds, attack.seconds):.0f} s"
    except Exception as error:
        # Somebody's server: whatever it makes of an attack is what was found.
        context.note(f"the attack could not be made to the end: {describe(error)}"[:1000])
    verdict = _verdict(context, attack, state, says, time.monotonic() - began)
    return replace(verdict, is_cut=is_cut and verdict.state == "not_tried")


def _not_tried(attack: Attack, why: str) -> AttackResult:
    return AttackResult(attack.name, attack.leak, attack.title, "not_tried", why, is_cut=True)


def _verdict(context: AttackContext, attack: Attack, state: State | None, says: str, seconds: float) -> AttackResult:
    wire = context.wire
    problems = list(context.problems)
    for seen in wire.sightings:
        key = seen.item.name, seen.exchange.where
        if key not in context.sighted:
            context.sighted.add(key)
            problems.append(Vulnerability(f"{seen.item.name} is in the answer to {seen.exchange.where}", seen.exchange))
    unique = list({problem.says: problem for problem in problems}.values())
    if unique:
        state, says = "broke", f"{len(unique)} {'thing' if len(unique) == 1 else 'things'} got through"
    return AttackResult(
        attack.name,
        attack.leak,
        attack.title,
        state or "held",
        says,
        tuple(unique[:_MOST_PROBLEMS]),
        tuple(dict.fromkeys(context.left_out)),
        tuple(wire.first),
        wire.requests,
        seconds,
    )
