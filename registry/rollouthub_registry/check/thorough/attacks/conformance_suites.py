"""Runs the MCP project's conformance suite and Inspector, as far as they apply to any server."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from rollouthub_registry.check.thorough.access_points import AccessPoint
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.conformance import conformance_outcomes
from rollouthub_registry.check.thorough.inspector import inspector_outcomes
from rollouthub_registry.check.thorough.node_programs import NodeTools, NoNodeTools, Outcome, find_node_tools

SUITE_SECONDS = 600.0


async def conformance(context: AttackContext) -> str:
    """Every scenario of the suite that needs no tools of its own must pass, under both revisions, at both access
    points.
    """
    tools = await _tools(context)
    held = 0
    for access_point in context.access_points:

        @asynccontextmanager
        async def seat(access_point: AccessPoint = access_point) -> AsyncGenerator[str]:
            async with context.episode(access_point) as opened:
                yield opened.place.url

        try:
            held += _take(context, access_point, await conformance_outcomes(tools, seat))
        except NoNodeTools as problem:
            raise NotTried(str(problem)) from None
    return f"{held} scenarios of the conformance suite pass"


async def inspector(context: AttackContext) -> str:
    """The Inspector must list the tools without schema errors in strict mode, and call one, in both eras."""
    tools = await _tools(context)
    held = 0
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            try:
                held += _take(context, access_point, await inspector_outcomes(tools, opened.place.url))
            except NoNodeTools as problem:
                raise NotTried(str(problem)) from None
    return f"{held} requests of the Inspector are answered as they must be"


async def _tools(context: AttackContext) -> NodeTools:
    try:
        return await find_node_tools(context.tools.node_tools, context.tools.variables)
    except NoNodeTools as problem:
        raise NotTried(str(problem)) from None


def _take(context: AttackContext, access_point: AccessPoint, outcomes: Sequence[Outcome]) -> int:
    """Note failed outcomes as vulnerabilities, and tell how many passed."""
    context.wire.requests += len(outcomes)
    for outcome in outcomes:
        name = f"{outcome.name}{f' ({outcome.version})' if outcome.version else ''} at the {access_point}"
        if outcome.state == "broke":
            context.note(f"{name}: {outcome.says}: {'; '.join(outcome.details)}"[:1000])
        elif outcome.state == "not_tried":
            context.leave_out(f"{name}: {outcome.says}")
    return sum(outcome.state == "held" for outcome in outcomes)


ATTACKS = (
    Attack("inspector", "protocol", "the MCP Inspector reads and calls its tools, strictly", inspector, SUITE_SECONDS),
    Attack("conformance", "protocol", "the MCP conformance suite's scenarios pass", conformance, SUITE_SECONDS),
)
