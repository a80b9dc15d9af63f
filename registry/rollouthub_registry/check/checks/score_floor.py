"""Check: doing nothing, and giving the same answer to every task, scores no more than the floor."""

from collections.abc import Sequence

from rollouthub import VerifierError
from rollouthub_registry.check.check_finding import Broken, NotApplicable
from rollouthub_registry.check.checked_environment import AnyTask, CheckedEnvironment, ScriptResult
from rollouthub_registry.check.scripted_episode import insist

CONSTANTS = (
    "0", "1", "-1", "42", "yes", "no", "True", "A", "None", "null", "I don't know.", r"\boxed{0}", "[]", "{}", "...",
    '{"reward": 1.0, "passed": true}', "Score(reward=1.0, passed=True)", "The answer is correct.",
    " ".join(map(str, range(100))),
)  # fmt: skip
MOST_WINS = 0.9
"""Share of tasks that a constant answer must win to fail the check; luck alone wins half of all yes-or-no tasks."""
FEWEST_TASKS = 3


async def nothing_earns_nothing(subject: CheckedEnvironment) -> str:
    """Check that an untouched episode is not passed, and earns no more than its task's declared floor (0 by
    default).
    """
    problems: list[str] = []
    tasks = subject.tasks()
    declared = 0
    for task in tasks:
        floor = subject.null_reward(task)
        declared += floor > 0
        verdict = await subject.verdict(task, ())
        if verdict.score is None:
            problems.append(f"{task.id}: not scored: {verdict.error}")
        elif verdict.score.reward > floor or (verdict.score.passed and floor <= 0):
            above = f", above its declared floor of {floor:g}" if floor > 0 else ""
            problems.append(f"{task.id}: reward {verdict.score.reward:g}{above}")
    if problems:
        raise Broken(
            f"{len(problems)} of {len(tasks)} tasks reward an agent that does nothing",
            "give no reward for an untouched world and an empty answer, and score both; where a task's own rules reward"
            " doing nothing, declare how much: `def null_reward(self)`",
            problems,
        )
    said = f"{len(tasks)} untouched episodes earn nothing"
    return f"{said} above the floor that {declared} of them declare" if declared else said


async def constants_do_not_win(subject: CheckedEnvironment) -> str:
    """Check that no fixed answer, and no repeating of the prompt, wins across tasks."""
    tasks = subject.tasks()
    if len(tasks) < FEWEST_TASKS:
        raise NotApplicable(f"needs {FEWEST_TASKS} tasks to tell a constant from a right answer, here are {len(tasks)}")
    problems: list[str] = []
    for words in CONSTANTS:
        wins = await _wins(subject, tasks, [words] * len(tasks))
        if wins >= MOST_WINS * len(tasks):
            problems.append(f"{words[:40]!r} wins {wins} of {len(tasks)} tasks")
    wins = await _wins(subject, tasks, [str(task.public.prompt) for task in tasks])
    if wins >= MOST_WINS * len(tasks):
        problems.append(f"the prompt itself wins {wins} of {len(tasks)} tasks")
    if problems:
        raise Broken(
            "the verifier can be satisfied without solving anything",
            "compare the whole answer, not whether something is somewhere in it, and vary the answers",
            problems,
        )
    return f"{len(CONSTANTS) + 1} constant answers do not win"


async def _wins(subject: CheckedEnvironment, tasks: Sequence[AnyTask], words: Sequence[str]) -> int:
    subject.require_verify()
    wins = 0
    for task, said in zip(tasks, words, strict=True):
        async with subject.episode(task) as episode:
            submission = await insist(episode, said)
            try:
                wins += ScriptResult(await episode.verify(submission)).is_won
            except VerifierError:
                continue  # another check's to report
    return wins
