"""Texts and answers that attacks send."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from rollouthub import Message
from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough.access_points import AttackedSeat, OpenEpisode
from rollouthub_registry.check.thorough.attack_context import AttackContext

ODD_ANSWERS = (
    "", "x", "-1", "NaN", "1e999", "{", "\\boxed{", "\\frac{1}{0}", "\x00\x1b[31m", "0" * 5000, "no " * 20_000,
    "{" * 2000,
    "💥" * 500, "```python\nraise SystemExit\n```", '{"answer": null}', "__import__('os')._exit(1)", "' OR 1=1 --",
)  # fmt: skip


async def try_everything(context: AttackContext, opened: OpenEpisode) -> None:
    """Call each tool of each seat except `submit` with well-formed and ill-formed arguments."""

    async def try_seat(seat: AttackedSeat) -> None:
        for tool in seat.tools:
            calls = [arguments for _, arguments in ill_formed(tool)]
            if tool.name != SUBMIT:
                calls += list(well_formed(tool))
            for arguments in calls:
                await context.call(opened, tool.name, arguments, seat.name)
        await context.call(opened, "no_such_tool", {}, seat.name)

    await context.at_seats(opened, try_seat)


def answer_of(reference: Sequence[Message]) -> str | None:
    """The answer that a solution submits, or its last words; None if it has neither."""
    for message in reversed(reference):
        for request in message.tool_requests:
            if request.name == SUBMIT:
                return str(arguments_of(request.arguments).get("answer"))
        if message.role == "assistant" and message.text:
            return message.text
    return None


async def play(context: AttackContext, opened: OpenEpisode, reference: Iterable[Message]) -> None:
    """Make the tool calls of a solution without submitting; results may then contain the answer."""
    context.wire.is_solved = True
    for message in reference:
        for request in message.tool_requests:
            if request.name != SUBMIT:
                await context.call(opened, request.name, arguments_of(request.arguments))


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of a tool call; empty if they are no JSON object."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}
