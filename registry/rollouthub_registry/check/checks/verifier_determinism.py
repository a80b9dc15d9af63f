"""Check: the verifier gives the same submission the same score every time."""

from rollouthub.messages import assistant
from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import CheckedEnvironment, ScriptResult
from rollouthub_registry.check.scripted_episode import Script

TIMES = 3


async def same_submission_same_score(subject: CheckedEnvironment) -> str:
    """Check that the reference, a wrong answer and no answer each get the same score in every episode of one seed."""
    problems: list[str] = []
    tasks = subject.tasks()
    for task in tasks:
        scripts: dict[str, Script] = {
            "the reference": await subject.references(task),
            "'x'": (assistant("x"),),
            "silence": (),
        }
        for name, script in scripts.items():
            rewards = [_shown(await subject.verdict(task, script)) for _ in range(TIMES)]
            if len(set(rewards)) > 1:
                problems.append(f"{task.id}: {name} gets {', '.join(rewards)}")
    if problems:
        raise Broken(
            "the same submission gets different scores",
            "let `verify` depend on the task, the submission and the episode's own state alone; seed what is random",
            problems,
        )
    return f"{len(tasks)} tasks score alike, {TIMES} times each"


def _shown(verdict: ScriptResult) -> str:
    score = verdict.score
    if score is None:
        return f"no score ({verdict.error})"
    parts = "".join(f", {name} {part.value:g}" for name, part in score.components.items())
    return f"{score.reward:.9g}{'' if score.passed is None else ' passed' if score.passed else ' not passed'}{parts}"
