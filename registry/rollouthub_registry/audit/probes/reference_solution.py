"""Probe: the reference solution is paid in full, each time."""

from rollouthub_registry.audit.task_under_audit import Played, TaskUnderAudit

_NEAR = 1e-9
_CHEAP_SECONDS, _MORE = 0.05, 9
"""A verifier that takes no longer, where no sandbox is opened, is asked at least so many times."""


async def reference_is_paid(task: TaskUnderAudit) -> str:
    """Play the reference solution several times, and doing nothing twice; each must be paid alike."""
    first = await task.oracle()
    is_cheap = not task.opens_sandboxes and first.verify_seconds < _CHEAP_SECONDS
    repeats = max(task.repeats, _MORE) if is_cheap and task.repeats > 1 else task.repeats
    again = [await task.play(await task.reference()) for _ in range(max(0, repeats - 1))]
    idle = [await task.null(), await task.play(())]
    _judge(task, first)
    for what, plays in (("the reference solution", [first, *again]), ("doing nothing", idle)):
        said = sorted({_said(played) for played in plays})
        if len(said) > 1:
            task.is_flaky = True
            task.note(f"{what} is judged differently each time: {', '.join(said)}", defect="flaky")
    return f"paid {first.reward:g}, {len(again) + 1} times"


def _judge(task: TaskUnderAudit, played: Played) -> None:
    if played.score is None:
        task.note(f"the reference solution is not scored: {played.error}", defect="verifier")
        return
    score = played.score
    if score.passed is False or (score.passed is None and score.reward < 1 - _NEAR):
        feedback = f" ({score.feedback})" if score.feedback else ""
        task.note(f"the reference solution is paid {score.reward:g}{feedback}")
    elif played.faults:
        task.note(f"the reference solution breaks the environment: {played.faults[0]}")


def _said(played: Played) -> str:
    if played.score is None:
        return "not scored"
    passed = {True: ", passed", False: ", not passed", None: ""}[played.score.passed]
    return f"{played.score.reward:.9g}{passed}"
