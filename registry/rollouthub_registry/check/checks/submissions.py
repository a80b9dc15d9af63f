"""Check: the verifier gives a finite score to any submission, however malformed."""

from rollouthub import VerifierError
from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.scripted_episode import insist

ODD = (
    "", " \n", "x", "-", "1e999", "NaN", "٣", "0" * 5000, "no " * 20_000, "{" * 2000, "\\boxed{", "\\frac{1}{0}",
    "\x00\x1b[31m",
    "💥" * 500, "```python\nraise SystemExit\n```", "<think>", '{"answer": null}', "' OR 1=1 --",
)  # fmt: skip
MOST_TASKS = 3


async def anything_is_scored(subject: CheckedEnvironment) -> str:
    """Check that each odd submission gets a finite score and causes no verifier fault."""
    subject.require_verify()
    problems: list[str] = []
    for task in subject.tasks()[:MOST_TASKS]:
        for words in ODD:
            async with subject.episode(task) as episode:
                submission = await insist(episode, words)
                try:
                    await episode.verify(submission)
                except VerifierError as error:
                    problems.append(f"{task.id}: {words[:40]!r}: {error}")
    if problems:
        raise Broken(
            f"{len(problems)} odd submissions break the verifier",
            "score what cannot be read as wrong; raise only where the verifier itself is broken, and never return NaN",
            problems,
        )
    return f"{len(ODD)} odd submissions are scored"
