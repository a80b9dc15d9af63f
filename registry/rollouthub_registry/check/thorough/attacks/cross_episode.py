"""Attack: reads one episode's state, session or text from another (L9)."""

import secrets
from collections.abc import Sequence

from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import AttackedSeat, OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange


async def sessions(context: AttackContext) -> str:
    """An MCP session of one episode must not be usable with the token of another."""
    for access_point in context.access_points:
        async with (
            context.episode(access_point) as mine,
            context.episode(access_point, card=context.target.cards[-1]) as theirs,
        ):
            session = raw_mcp.Session(context.wire, f"at the {access_point}", theirs.place.url)
            greeted = await session.begin()
            if "Mcp-Session-Id" not in session.headers:
                context.leave_out(f"the {access_point} opens no session in the era of handshakes")
                continue
            foreign = raw_mcp.Session(context.wire, f"with another's token at the {access_point}", mine.place.url)
            foreign.headers = dict(session.headers)
            for answer in (await foreign.ask("tools/list"), await foreign.call("get_task", {}), await foreign.end()):
                context.must_refuse(
                    answer, f"a session of one episode answers the token of another at the {access_point}"
                )
            if not (answer := await session.ask("tools/list")).is_granted:
                context.note(f"another's token ended a session at the {access_point}", answer)
            if greeted.result is None:
                context.note(f"no handshake at the {access_point}", greeted)
    return "sessions answer to their own token"


async def marks(context: AttackContext) -> str:
    """A text written in one episode, through any tool that takes text, must not appear in a concurrent or later one."""
    for access_point in context.access_points:
        mark = f"mark-{secrets.token_hex(8)}"
        async with context.episode(access_point) as one, context.episode(access_point) as beside:
            await _leave_marks(context, one, mark)
            await _look_for(context, beside, mark, "beside it")
            await _leave_marks(context, one, mark)
            if one.submits:
                await context.call(one, SUBMIT, {"answer": mark})
            await _look_for(context, beside, mark, "beside it")
            await one.end()
        async with context.episode(access_point) as after:
            await _look_for(context, after, mark, "after it")
    return f"{context.wire.requests} calls; no mark of one episode is met in another"


async def _leave_marks(context: AttackContext, opened: OpenEpisode, mark: str) -> None:
    async def mark_seat(seat: AttackedSeat) -> None:
        for tool in seat.tools:
            if tool.name != SUBMIT:
                for arguments in well_formed(tool, mark):
                    await context.call(opened, tool.name, arguments, seat.name)

    await context.at_seats(opened, mark_seat)


async def _look_for(context: AttackContext, opened: OpenEpisode, mark: str, when: str) -> None:
    for exchange in await _everything(context, opened):
        if mark.encode() in exchange.body:
            context.note(
                f"what was said in one episode is met in another {when}, at the {opened.access_point}", exchange
            )


async def _everything(context: AttackContext, opened: OpenEpisode) -> Sequence[RawExchange]:
    found = [await context.ask(opened, "server/discover"), await context.ask(opened, "tools/list")]
    found.append(await raw_mcp.Session(context.wire, f"at the {opened.access_point}", opened.place.url).begin())

    async def try_seat(seat: AttackedSeat) -> None:
        for tool in seat.tools:
            if tool.name != SUBMIT:
                found.extend([await context.call(opened, tool.name, each, seat.name) for each in well_formed(tool)])

    await context.at_seats(opened, try_seat)
    return found


async def own_task(context: AttackContext) -> str:
    """Interleaved episodes of two tasks must each get their own task."""
    cards = context.target.cards
    if len(cards) < 2:
        context.leave_out("it has one task, so there is no other's to be told")
    for access_point in context.access_points:
        async with (
            context.episode(access_point, card=cards[0]) as one,
            context.episode(access_point, card=cards[-1]) as other,
        ):
            told: dict[str, set[str]] = {one.id: set(), other.id: set()}
            for _ in range(3):
                for opened in (one, other):
                    answer = await context.call(opened, "get_task", {})
                    greeting = await raw_mcp.Session(context.wire, f"at the {access_point}", opened.place.url).begin()
                    told[opened.id].add(f"{answer.words}\n{(greeting.result or {}).get('instructions')}")
            if any(len(texts) > 1 for texts in told.values()):
                context.note(f"an episode is told another task than before, at the {access_point}")
    return "each episode is told its own task"


ATTACKS = (
    Attack("foreign-sessions", "L9", "a session of one episode is no use to another", sessions),
    Attack("marks", "L9", "nothing said in one episode is met in another", marks),
    Attack("interleaved-tasks", "L9", "interleaved episodes are each told their own task", own_task),
)
