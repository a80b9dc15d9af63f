"""Attack: a second answer, calls after the end, and races between them (L5)."""

from typing import Any

import anyio

from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

RACERS = 16


async def resubmit(context: AttackContext) -> str:
    """The first answer counts: a second must be refused, in either era, and change neither record nor score."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            _need_submit(opened)
            session = await context.session(opened)
            first = await context.call(opened, SUBMIT, {"answer": "the first answer"})
            if not first.is_granted:
                context.note(f"the first answer is refused at the {access_point}", first)
            again = [
                await context.call(opened, SUBMIT, {"answer": "the second answer"}),
                await session.call(SUBMIT, {"answer": "the third answer"}),
                await raw_mcp.call(
                    context.wire, f"submit at the {access_point}", opened.place.url, SUBMIT, {"answer": ""}
                ),
            ]
            for answer in again:
                context.must_refuse(answer, f"another answer after the first is taken at the {access_point}")
            ended = await opened.end()
            if ended.answer != "the first answer":
                context.note(f"at the {access_point} the record has {ended.answer!r} instead of the first answer")
    return "a second answer is refused"


def _need_submit(opened: OpenEpisode) -> None:
    if not opened.submits:
        raise NotTried("its tasks ask for no answer to hand in")


async def late_calls(context: AttackContext) -> str:
    """Once an episode is sealed, by an answer or by the hub, no tool may do anything, in either era."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            session = await context.session(opened, "after the seal")
            if opened.submits:
                await context.call(opened, SUBMIT, {"answer": "x"})
            else:
                await opened.episode.seal()
            await _call_late(context, opened, session)
    async with context.episode() as opened:
        session = await context.session(opened, "after the hub's seal")
        await context.control("POST", f"/v1/episodes/{opened.id}/seal")
        await _call_late(context, opened, session)
    return f"{context.wire.requests} requests; every tool is closed after the end"


async def _call_late(context: AttackContext, opened: OpenEpisode, session: raw_mcp.Session) -> None:
    said = set[str]()
    for tool in opened.place.tools:
        arguments = next(well_formed(tool))
        for answer in (await context.call(opened, tool.name, arguments), await session.call(tool.name, arguments)):
            said.add(answer.words)
            context.must_refuse(answer, f"{tool.name} still answers after the end, at the {opened.access_point}")
    if len({words for words in said if words}) > 2:
        context.leave_out(
            f"late calls get {len(said)} different refusals at the {opened.access_point}; one text tells least"
        )


async def race(context: AttackContext) -> str:
    """Of many concurrent answers exactly one must be accepted, and that one must be recorded and scored."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            _need_submit(opened)
            taken = await _race(context, opened)
            if len(taken) != 1:
                told = next(iter(taken.values()), None)
                context.note(f"{len(taken)} of {RACERS} answers at once were taken at the {access_point}", told)
            ended = await opened.end()
            if taken and ended.answer not in taken:
                context.note(f"at the {access_point} the record has {ended.answer!r}, which was not the answer taken")
    return f"of {RACERS} answers at once one is taken"


async def _race(context: AttackContext, opened: OpenEpisode) -> dict[str, RawExchange]:
    taken = dict[str, RawExchange]()

    async def hand_in(answer: str) -> None:
        exchange = await context.call(opened, SUBMIT, {"answer": answer})
        if exchange.is_granted:
            taken[answer] = exchange

    async with anyio.create_task_group() as tasks:
        for number in range(RACERS):
            tasks.start_soon(hand_in, f"answer {number}")
    return taken


async def one_verdict(context: AttackContext) -> str:
    """However often and with whatever else an episode is verified, there must be only one score."""
    async with context.episode() as opened:
        if opened.submits:
            await context.call(opened, SUBMIT, {"answer": "the first answer"})
        verdicts: list[Any] = []

        async def verify(answer: str) -> None:
            body = {"submission": {"answer": answer}}
            exchange = await context.control("POST", f"/v1/episodes/{opened.id}/verify", body)
            message = exchange.message
            verdicts.append(message.get("score") if exchange.status == 200 else message.get("error"))

        await verify("the first answer")
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(verify, f"another answer {number}")
        if any(verdict != verdicts[0] for verdict in verdicts):
            context.note(f"verifying again gives another verdict: first {verdicts[0]}, then {verdicts[1:]}")
    return "nine verdicts on one episode are one"


ATTACKS = (
    Attack("second-answer", "L5", "the first answer counts", resubmit),
    Attack("late-calls", "L5", "after the end no tool does anything", late_calls),
    Attack("answers-at-once", "L5", "of answers handed in at once one counts", race),
    Attack("verdicts-at-once", "L5", "an episode has one verdict", one_verdict),
)
