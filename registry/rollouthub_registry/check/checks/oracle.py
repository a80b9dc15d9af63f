"""Check: the reference solution, played through the real tools, gets full marks."""

from rollouthub_registry.check.check_finding import Broken, NotApplicable
from rollouthub_registry.check.checked_environment import CheckedEnvironment


async def reference_wins(subject: CheckedEnvironment) -> str:
    """Check that every task's reference solution gets full marks and causes no environment fault."""
    problems: list[str] = []
    played = without = 0
    for task in subject.tasks():
        reference = await subject.references(task)
        if not reference:
            without += 1
            continue
        played += 1
        verdict = await subject.verdict(task, reference)
        if verdict.faults:
            problems.append(f"{task.id}: its tools broke: {verdict.faults[0]}")
        elif verdict.score is None:
            problems.append(f"{task.id}: not scored: {verdict.error}")
        elif not verdict.is_won:
            feedback = f" ({verdict.score.feedback})" if verdict.score.feedback else ""
            problems.append(f"{task.id}: reward {verdict.score.reward:g}{feedback}")
    if not played:
        raise NotApplicable("no task has a reference solution; write `reference`, and it can be played")
    if problems:
        raise Broken(
            f"{len(problems)} of {played} reference solutions do not win",
            "mend the reference, or the verifier that refuses it",
            problems,
        )
    return f"{played} reference solutions win" + (f"; {without} tasks have none" if without else "")
