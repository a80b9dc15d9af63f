"""Attack: reads or uses what belongs to another seat of the same episode (L1, L2)."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import AttackedSeat, OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.leak_scan import SHORTEST
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

_ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("server/discover", {}),
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
)


def _need_seats(context: AttackContext) -> None:
    if len(context.target.host.info.seats) == 1:
        raise NotTried("it has one seat, so there is no other to attack")


async def others_tools(context: AttackContext) -> str:
    """A seat must not be able to call another seat's tools, in either era, whomever it claims to be."""
    _need_seats(context)
    count = 0
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for seat, place in opened.places.items():
                own = {tool.name for tool in place.tools}
                others = {tool.name for other in opened.places.values() for tool in other.tools} - own
                session = raw_mcp.Session(context.wire, f"of seat {seat} at the {access_point}", place.url)
                await session.begin()
                for name in sorted(others - {SUBMIT}):
                    for arguments in ({}, *({"seat": other} for other in opened.places)):
                        for answer in (
                            await context.call(opened, name, arguments, seat),
                            await session.call(name, arguments),
                        ):
                            count += 1
                            what = f"seat {seat!r} may call {name!r}, which only another seat is offered"
                            context.must_refuse(answer, what)
    return f"{count} calls of other seats' tools are refused; each seat has its own tools alone"


async def others_words(context: AttackContext) -> str:
    """What only another seat is told, and its token, must appear in nothing that a seat may read, nor in a result."""
    _need_seats(context)
    count = 0
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            count += await _read_others(context, opened)
    return f"{count} lines and tokens that belong to one seat are read by no other"


async def _read_others(context: AttackContext, opened: OpenEpisode) -> int:
    """Search everything that each seat gets for what the others alone are told; returns the number of lines and tokens
    searched for.
    """
    private = {seat: list(_private(opened, seat)) for seat in opened.places}
    tokens = {seat.token for seat in opened.places.values()}

    async def look(seat: AttackedSeat) -> None:
        others = {line for other, lines in private.items() if other != seat.name for line in lines}
        for answer in await _everything(context, opened, seat):
            if met := next((line for line in others if line in _text_of(answer)), None):
                what = "token" if met in tokens else "words"
                context.note(f"seat {seat.name!r} reads another's {what} in {answer.where}", answer)

    await context.at_seats(opened, look)
    return sum(map(len, private.values()))


def _private(opened: OpenEpisode, seat: str) -> Iterator[str]:
    """The seat's token, and the lines of its opening messages that no other seat is told."""
    yield opened.places[seat].token
    told = {name: _told(opened, name) for name in opened.places}
    others = "\n".join(text for name, text in told.items() if name != seat)
    for line in map(str.strip, told[seat].splitlines()):
        if len(line) >= SHORTEST and line not in others:
            yield line


def _told(opened: OpenEpisode, seat: str) -> str:
    return "\n".join(message.text for message in opened.episode.seats[seat].messages)


async def _everything(context: AttackContext, opened: OpenEpisode, place: AttackedSeat) -> list[RawExchange]:
    """Everything that a seat can read, and the results of its tools."""
    where = f"of seat {place.name} at the {opened.access_point}"
    found = [
        await raw_mcp.modern(context.wire, f"{method} {where}", place.url, method, params) for method, params in _ASKED
    ]
    session = raw_mcp.Session(context.wire, where, place.url)
    found.append(await session.begin())
    found += [await session.ask(method, params) for method, params in _ASKED[1:]]
    for tool in place.tools:
        if tool.name != SUBMIT:
            found += [await context.call(opened, tool.name, each, place.name) for each in well_formed(tool)]
    return found


def _text_of(answer: RawExchange) -> str:
    """Every text of an answer, with JSON's escapes resolved."""
    return "\n".join(_texts(answer.message))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, Any], value).values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _texts(item)


ATTACKS = (
    Attack("other-seats-tools", "L2", "a seat's tools are its own", others_tools),
    Attack("other-seats-words", "L1", "what a seat alone is told, and its token, no other seat reads", others_words),
)
