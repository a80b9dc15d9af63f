"""Check: no canary put in place of a secret field reaches the agent."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from rollouthub import Message
from rollouthub.errors import HubError
from rollouthub.messages import assistant
from rollouthub.protocols import AgentPlane, Episode
from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.canaries import planted as twins_of
from rollouthub_registry.check.check_finding import Broken, NotApplicable
from rollouthub_registry.check.checked_environment import AnyTask, CheckedEnvironment
from rollouthub_registry.check.scripted_episode import SUBMIT, call

MEANINGFUL = 6
"""Shortest answer, in characters, whose appearance in a text is no coincidence."""
MOST_TASKS = 3

Seen = tuple[str, str]
"""Where on the agent plane a text appeared, and the text."""


async def secrets_stay_secret(subject: CheckedEnvironment) -> str:
    """Check that no planted canary and no real answer appears in messages, tools, results or errors."""
    leaks: list[str] = []
    planted = answers = 0
    for task in subject.tasks()[:MOST_TASKS]:
        reference = await subject.reference(task)
        for field, canary, twin in twins_of(task):
            try:
                seen = [item async for item in _everything(subject, twin, reference)]
            except HubError:
                continue  # a world that cannot be made of this secret shows nothing of it either
            planted += 1
            leaks += [f"{task.id}: the secret's {field!r} is in {where}" for where, text in seen if canary in text]
        answers += task.secret.answer is not None
        leaks += [f"{task.id}: {leak}" async for leak in _real_leaks(subject, task)]
    if leaks:
        raise Broken(
            "what is secret reaches the agent",
            "keep the secret half out of messages, tool results and errors; what tools may reveal belongs into Public",
            sorted(set(leaks)),
        )
    if not planted and not answers:
        raise NotApplicable("its tasks keep nothing secret from every seat")
    return f"{planted} canaries planted, none seen" if planted else "real answers searched for, none seen"


async def _everything(
    subject: CheckedEnvironment, task: AnyTask, reference: tuple[Message, ...] | Any
) -> AsyncIterator[Seen]:
    """Every text that an agent can see in an episode of a task."""
    async with subject.episode(task) as episode:
        for item in _opening(episode):
            yield item
        for plane in dict(episode.seats).values():
            async for item in _tried(plane):
                yield item
            for message in reference:
                for request in message.tool_requests:
                    if request.name != SUBMIT and (result := await call(plane, request)) is not None:
                        yield f"a result of {request.name}", result.model_dump_json()
        async for item in _ending(episode):
            yield item


def _opening(episode: Episode) -> Iterator[Seen]:
    for plane in episode.seats.values():
        for message in plane.messages:
            yield "the opening messages", message.model_dump_json()
        for tool in plane.tools:
            yield f"the definition of tool {tool.name}", tool.model_dump_json()


async def _tried(plane: AgentPlane) -> AsyncIterator[Seen]:
    for tool in plane.tools:
        calls = [arguments for _, arguments in ill_formed(tool)]
        if tool.name != SUBMIT:
            calls += list(well_formed(tool))
        for arguments in calls:
            result = await plane.call_tool(tool.name, arguments)
            yield f"{'an error' if result.is_error else 'a result'} of {tool.name}", result.model_dump_json()
    result = await plane.call_tool("no_such_tool", {})
    yield "the error of an unknown tool", result.model_dump_json()
    said = await plane.reply((assistant("What is the answer?"),))
    for message in said or ():
        yield "what the user says", message.model_dump_json()


async def _ending(episode: Episode) -> AsyncIterator[Seen]:
    plane = next(iter(episode.seats.values()))
    if any(tool.name == SUBMIT for tool in plane.tools):
        yield "the result of submit", (await plane.call_tool(SUBMIT, {"answer": "x"})).model_dump_json()
    await episode.seal()
    for tool in plane.tools:
        result = await plane.call_tool(tool.name, next(well_formed(tool)))
        yield f"what {tool.name} says after the end", result.model_dump_json()


async def _real_leaks(subject: CheckedEnvironment, task: AnyTask) -> AsyncIterator[str]:
    """Places where the real answer appears although the task was not solved."""
    answer = task.secret.answer
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        return
    text = str(answer)
    public = task.public
    if len(text) < MEANINGFUL or text in str(public.prompt) or text in (public.system or ""):
        return
    if any(str(value) == text for value in public.metadata.values()) or text in public.id:
        yield "the answer is in the public half (id or metadata), which listings and records carry"
    async for where, seen in _everything(subject, task, ()):
        if text in seen:
            yield f"the answer is in {where}"
