"""Probes: changed answers of the reference are refused, and the same answer in another form is paid."""

import re

from rollouthub_registry.audit.answer_forms import in_other_forms, made_wrong
from rollouthub_registry.audit.reference_answer import with_answer
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit

_SAYS_FORM = re.compile(
    r"format|exactly|digits?\b|integer|decimal|json|boxed|fraction|comma|only\b|nothing else|round|letter|\bone word"
    r"|form\b",
    re.IGNORECASE,
)


async def wrong(task: TaskUnderAudit) -> str:
    """Wrong variants of the reference's answer must not be paid in full."""
    task.require_steady()
    script, answer = await task.reference(), await task.answer()
    if answer is None:
        raise ProbeSkipped("the reference solution gives no answer")
    if not await task.is_paid_in_full(await task.oracle()):
        raise ProbeSkipped("the reference solution itself is not paid in full")
    if not await _reads_the_answer(task):
        raise ProbeSkipped("the verifier does not read the answer")
    variants = made_wrong(answer.text)
    others = task.facts.answers_of_others(task.card.public.id, answer.text)
    tried = 0
    for how, text in variants:
        tried += 1
        if await task.is_paid_in_full(await task.play(with_answer(script, answer, text))):
            task.note(f"the answer is paid in full although it is wrong ({how})", text)
    accepted: list[tuple[str, str]] = []
    for other, text in others:
        tried += 1
        if await task.is_paid_in_full(await task.play(with_answer(script, answer, text))):
            accepted.append((other, text))
    if accepted and 2 * len(accepted) > len(others):
        task.note(f"the answer of task {accepted[0][0]!r} is paid in full, too", accepted[0][1])
    return f"{tried} wrong answers"


async def _reads_the_answer(task: TaskUnderAudit) -> bool:
    """Whether the verifier judges what is answered: without it, the rest of the solution alone is not paid in full, or
    there is nothing but the answer.
    """
    from rollouthub_registry.audit.reference_answer import steps_of

    script, answer = await task.reference(), await task.answer()
    assert answer is not None
    if not any(steps_of(script)):
        return True
    played = await task.play(with_answer(script, answer, ""))
    if not await task.is_paid_in_full(played):
        return True
    # An empty answer is paid in full: either nobody reads it, or the verifier takes anything.
    from rollouthub_registry.audit.reference_answer import without_steps

    bare = await task.play(without_steps(script, list(steps_of(script))))
    return await task.is_paid_in_full(bare)


async def same_form(task: TaskUnderAudit) -> str:
    """The reference's answer must be paid in full in other forms, too."""
    task.require_steady()
    script, answer = await task.reference(), await task.answer()
    if answer is None:
        raise ProbeSkipped("the reference solution gives no answer")
    if not await task.is_paid_in_full(await task.oracle()):
        raise ProbeSkipped("the reference solution itself is not paid in full")
    tried = 0
    for variant in in_other_forms(answer.text):
        if variant.is_notation and _SAYS_FORM.search(task.prompt):
            continue
        tried += 1
        if not await task.is_paid_in_full(await task.play(with_answer(script, answer, variant.text))):
            severity = "remark" if variant.is_notation else "defect"
            task.note(f"the answer is refused in another form ({variant.how})", variant.text, severity=severity)
    return f"{tried} other forms"
