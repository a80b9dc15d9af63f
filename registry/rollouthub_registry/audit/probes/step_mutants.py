"""Probes: solutions with changed or missing steps are refused, and those that differ in form alone are paid.

A changed solution is wrong if it leaves the environment in another state than the reference does, and the steps are
independent: played in reverse, they lead to the reference's state, too. Where they are not, as in a game, or where the
state is all that lies in a sandbox, another way may be as good, and what is paid all the same is a remark.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from rollouthub_registry.audit.reference_answer import (
    SeatScript,
    SolutionStep,
    answer_of,
    steps_of,
    with_answer,
    with_arguments,
    with_call,
    without_steps,
)
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit

_MOST, _MOST_IN_SANDBOXES = 12, 3
"""Number of changed solutions; fewer where each opens a sandbox."""


async def wrong(task: TaskUnderAudit) -> str:
    """Solutions with missing steps or changed arguments must not be paid in full."""
    script, steps = await _steps(task)
    oracle = await task.oracle()
    if not await task.is_paid_in_full(oracle):
        raise ProbeSkipped("the reference solution itself is not paid in full")
    bare = without_steps(script, steps)
    if await task.is_paid_in_full(await task.play(bare)):
        if await _judges_answers(task, bare):
            return "the answer alone is judged"
        task.note("a solution without any of its steps is paid in full")
        return "all steps left out"
    accepted: list[str] = []
    tried = wrong_ones = 0
    for how, changed in _changed(script, steps, _MOST_IN_SANDBOXES if task.opens_sandboxes else _MOST):
        played = await task.play(changed)
        tried += 1
        is_other = played.state is not None and oracle.state is not None and played.state != oracle.state
        wrong_ones += is_other
        if is_other and await task.is_paid_in_full(played):
            accepted.append(how)
    if accepted:
        # Of all files of a sandbox some may differ and nothing be wrong, such as a log.
        is_wrong = not task.opens_sandboxes and await _are_independent(task, script, oracle.state)
        says = f"{len(accepted)} of {wrong_ones} solutions that end in another state are paid in full"
        task.note(f"{says}: {accepted[0]}", "\n".join(accepted), severity="defect" if is_wrong else "remark")
    return f"{tried} changed solutions"


async def same_form(task: TaskUnderAudit) -> str:
    """Solutions that differ from the reference in form alone must be paid in full."""
    script, steps = await _steps(task)
    if not await task.is_paid_in_full(await task.oracle()):
        raise ProbeSkipped("the reference solution itself is not paid in full")
    changed = script
    for step in steps:
        changed = with_arguments(changed, step, dict(reversed(list(step.arguments.items()))))
    if not await task.is_paid_in_full(await task.play(changed)):
        task.note("the solution is refused when its arguments come in another order")
    turned, oracle = _turned(script, steps), await task.oracle()
    if turned is None or oracle.state is None or task.opens_sandboxes:
        return "arguments in another order"
    played = await task.play(turned)
    if played.state == oracle.state and not await task.is_paid_in_full(played):
        says = "the solution is refused when its steps come in another order, which end in the same state"
        task.note(says, severity="remark")  # the prompt may ask for the order
    return "arguments and steps in another order"


async def _steps(task: TaskUnderAudit) -> tuple[SeatScript, list[SolutionStep]]:
    task.require_steady()
    script = await task.reference()
    steps = list(steps_of(script))
    if not steps:
        raise ProbeSkipped("the reference solution calls no tool")
    return script, steps


async def _judges_answers(task: TaskUnderAudit, bare: SeatScript) -> bool:
    """Whether a wrong answer in place of the right one is refused."""
    answer = answer_of(bare)
    if answer is None:
        return False
    for text in ("", "no such answer", *(text for _, text in task.facts.answers_of_others("", answer.text))):
        if not await task.is_paid_in_full(await task.play(with_answer(bare, answer, text))):
            return True
    return False


async def _are_independent(task: TaskUnderAudit, script: SeatScript, state: JsonValue) -> bool:
    """Whether the steps lead to the same state in reverse order, so that each of them is needed for it."""
    turned = _turned(script, list(steps_of(script)))
    if turned is None:
        return len(list(steps_of(script))) < 2
    return (await task.play(turned)).state == state


def _turned(script: SeatScript, steps: list[SolutionStep]) -> SeatScript | None:
    """The script with its steps in reverse order; None if they are too few, or of several seats."""
    if len(steps) < 2 or len({step.seat for step in steps}) > 1:
        return None
    turned = script
    for step, other in zip(steps, reversed(steps), strict=True):
        turned = with_call(turned, step, other.tool, other.arguments)
    return turned


def _changed(script: SeatScript, steps: list[SolutionStep], most: int) -> Iterator[tuple[str, SeatScript]]:
    """Solutions with a step left out or an argument changed, spread over the steps."""
    spread = steps[:: max(1, len(steps) // most)][:most]
    count = 0
    for step in spread:
        yield f"{step.tool} left out", without_steps(script, [step])
        count += 1
    for step in spread:
        if count >= 2 * most:
            return
        for how, arguments in _other_arguments(step.arguments):
            yield f"{step.tool}: {how}", with_arguments(script, step, arguments)
            count += 1


def _other_arguments(arguments: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = [key for key, value in arguments.items() if isinstance(value, str)]
    if len(texts) > 1 and arguments[texts[0]] != arguments[texts[1]]:
        first, second = texts[:2]
        swapped = {**arguments, first: arguments[second], second: arguments[first]}
        yield f"{first} and {second} swapped", swapped
    for key, value in arguments.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{key} off by one", {**arguments, key: value + 1}
            return
