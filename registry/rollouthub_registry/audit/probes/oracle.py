"""Probe: the reference solution is paid in full, each time."""

from rollouthub_registry.audit.task_under_audit import Played, TaskUnderAudit

_NEAR = 1e-9


async def reference_is_paid(task: TaskUnderAudit) -> str:
    """Play the reference solution several times, and doing nothing twice; each must be paid alike."""
    first = await task.oracle()
    again = [await task.play(await task.reference()) for _ in range(max(0, task.repeats - 1))]
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
    return "not scored" if played.score is None else f"{played.score.reward:g}"
