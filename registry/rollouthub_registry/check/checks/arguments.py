"""Check: ill-formed tool arguments give the model a tool error and never break the environment."""

from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.scripted_episode import SUBMIT, words_of


async def odd_arguments_are_refused(subject: CheckedEnvironment) -> str:
    """Check that invalid arguments give tool errors, and unusual but valid ones cause no environment fault."""
    problems: list[str] = []
    count = 0
    task = subject.tasks()[0]
    async with subject.episode(task) as episode:
        for seat, plane in dict(episode.seats).items():
            result = await plane.call_tool("no_such_tool", {})
            if not result.is_error:
                problems.append(f"a tool that does not exist answers {seat}: {words_of(result)[:80]}")
            for tool in plane.tools:
                for wrong, arguments in ill_formed(tool):
                    count += 1
                    result = await plane.call_tool(tool.name, arguments)
                    if not result.is_error:
                        problems.append(f"{tool.name} takes {wrong} without a word")
                if tool.name == SUBMIT:
                    continue
                for arguments in well_formed(tool):
                    count += 1
                    before = len(episode.faults)
                    await plane.call_tool(tool.name, arguments)
                    if len(episode.faults) > before:
                        fault = episode.faults[-1]
                        problems.append(f"{tool.name}({_shown(arguments)}): {fault.type}: {fault.message}")
    if problems:
        raise Broken(
            "what a model may well send breaks a tool, or passes unnoticed",
            "raise ToolError(text) for arguments a tool cannot use; any other exception counts against the environment",
            problems,
        )
    return f"{count} odd calls are answered"


def _shown(arguments: dict[str, object]) -> str:
    return ", ".join(f"{name}={value!r:.30}" for name, value in arguments.items())
