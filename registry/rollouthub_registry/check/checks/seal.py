"""Check: only the first answer counts, and every call after the end is refused."""

from rollouthub import Score, Submission, VerifierError
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.protocols import Episode
from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.check_finding import Broken, NotApplicable
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.scripted_episode import SUBMIT, words_of

_SAYS = "the tools of a sealed episode must all answer with the closed error; let the hub's host do it"


async def first_answer_counts(subject: CheckedEnvironment) -> str:
    """Check that a second `submit` is refused and changes nothing, and that a second verify gives the same."""
    if not subject.environment.submits:
        raise NotApplicable("its tasks ask for no answer (`submits = False`)")
    task = subject.tasks()[0]
    async with subject.episode(task) as episode:
        plane = next(iter(episode.seats.values()))
        await plane.call_tool(SUBMIT, {"answer": "the first answer"})
        second = await plane.call_tool(SUBMIT, {"answer": "the second answer"})
        if not second.is_error or episode.answer != "the first answer":
            raise Broken("a second answer was taken", _SAYS, [f"the episode's answer is {episode.answer!r}"])
        first = await _verdict(episode, "the first answer")
        again = await _verdict(episode, "the second answer")
    if first != again:
        raise Broken(
            "verifying twice gave two verdicts",
            "an episode is verified once; what comes later gets the first verdict",
            [f"first {first}", f"then {again}"],
        )
    return "a second answer changes nothing"


async def sealed_is_closed(subject: CheckedEnvironment) -> str:
    """Check that after the seal every tool of every seat gives the fixed error."""
    task = subject.tasks()[0]
    problems: list[str] = []
    async with subject.episode(task) as episode:
        planes = dict(episode.seats)
        await episode.seal()
        for seat, plane in planes.items():
            for tool in plane.tools:
                result = await plane.call_tool(tool.name, next(well_formed(tool)))
                if not result.is_error or words_of(result) != CLOSED:
                    problems.append(f"{tool.name} ({seat}) still answers: {words_of(result)[:100]}")
            if await plane.reply(()) is not None:
                problems.append(f"the user still answers {seat}")
    if problems:
        raise Broken("the agent still gets through after the end", _SAYS, problems)
    return f"all {sum(len(plane.tools) for plane in planes.values())} tools are closed after the end"


async def _verdict(episode: Episode, answer: str) -> Score | str:
    try:
        return await episode.verify(Submission(answer=answer))
    except VerifierError as error:
        return str(error)
