"""Probes: doing nothing, and giving the same answer to every task, is not paid."""

import re
from collections.abc import Iterator

from rollouthub_registry.audit.answer_forms import core_of
from rollouthub_registry.audit.hidden_texts import has_word
from rollouthub_registry.audit.set_facts import same
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit
from rollouthub_registry.check.checks.score_floor import CONSTANTS
from rollouthub_registry.check.scripted_episode import SUBMIT

_OPTION = re.compile(r"^[ \t]*\(?([A-J])[).:]\s", re.MULTILINE)
"""The letter of an option of a multiple-choice question."""
_PART = re.compile(r"[^\s{}\\\[\]\"':,()=]+")
_MOST_FRAME = 5
"""Most words of a constant that may hold a right answer."""
_IN_SANDBOXES = 3
"""Number of constants where each opens a sandbox."""


async def nothing_is_not_paid(task: TaskUnderAudit) -> str:
    """An untouched episode must not be paid more than its environment declares."""
    played, declared = await task.null(), await task.declared_floor()
    if played.score is None:
        task.note(f"an untouched episode is not scored: {played.error}", defect="verifier")
        return "not scored"
    if played.reward > declared + 1e-9 or (played.score.passed and declared <= 0):
        above = f", above its declared floor of {declared:g}" if declared > 0 else ""
        task.note(f"doing nothing is paid {played.reward:g}{above}")
    return f"paid {played.reward:g}"


async def constants_are_not_paid(task: TaskUnderAudit) -> str:
    """Answers that do not depend on the task, and the task's own text, must not be paid in full."""
    if await task.declared_floor() > 0:
        raise ProbeSkipped("doing nothing is right here, and so is saying something else")
    task.require_steady()
    try:
        answer = await task.answer()
        reads_answers = answer is not None
    except ProbeSkipped:
        answer, reads_answers = None, True
    own = "" if answer is None else same(core_of(answer.text))
    paid: list[str] = []
    tried = 0
    for words in _constants(task, reads_answers=reads_answers or any(tool.name == SUBMIT for tool in task.tools)):
        if answer is not None and _says(words, own):
            continue
        tried += 1
        if await task.is_paid_in_full(await task.insist(words)):
            paid.append(words)
    # Without a reference nobody knows whether one of them is right; two different ones are not.
    if paid and (answer is not None or len(paid) > 1):
        shown = ", ".join(repr(words[:40]) for words in paid[:4])
        task.note(f"{len(paid)} of {tried} constant answers are paid in full: {shown}", paid[0])
    return f"{tried} constant answers"


def _constants(task: TaskUnderAudit, *, reads_answers: bool) -> Iterator[str]:
    frequent = task.facts.most_frequent
    chosen = [*CONSTANTS] if reads_answers and not task.opens_sandboxes else [*CONSTANTS[:_IN_SANDBOXES]]
    options = sorted(set(_OPTION.findall(task.prompt)))
    chosen += ["", task.prompt, *([] if frequent is None else [frequent]), *(options if len(options) > 1 else [])]
    yield from dict.fromkeys(chosen)


def _says(words: str, answer: str) -> bool:
    """Whether a constant happens to be right, or is the right answer in a frame; one of many words is no frame."""
    core = same(core_of(words))
    if core and has_word(answer, core):  # as '5' is where the answer is 'x=5'
        return True
    if len(words.split()) > _MOST_FRAME:
        return False
    return any(same(word) == answer or _are_equal(word, answer) for word in _PART.findall(words))


def _are_equal(word: str, answer: str) -> bool:
    try:
        return float(word) == float(answer)
    except ValueError:
        return False
