"""Attack: forged, foreign and expired tokens, and whether valid ones can be guessed (L10)."""

import hashlib
import math
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any

from rollouthub.errors import EpisodeError
from rollouthub.protocols import TaskCard
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import AccessPoint, OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

SAMPLE = 16
"""Number of episodes whose tokens are compared."""
SAMPLE_SECONDS = 30.0
BITS = 128


def _forged(token: str, opened: OpenEpisode, closed: str) -> dict[str, str]:
    """Invalid tokens, by kind."""
    last = token[-1]
    return {
        "a truncated token": token[:-1],
        "half a token": token[: len(token) // 2],
        "a longer token": token + "A",
        "a token with its last character changed": token[:-1] + ("A" if last != "A" else "B"),
        "a token in the other case": token.swapcase(),
        "a token backwards": token[::-1],
        "the token of a closed episode": closed,
        "the control token": opened.target.control_token,
        "the episode's id": opened.id,
        "the seat's name": opened.place.name,
        "nothing": "",
        "a star": "*",
        "a zero byte": token + "%00",
        "a space": token + "%20",
        "a wildcard": "%25",
        "null": "null",
        "a path": "../" + token,
        "an SQL injection": "'%20OR%201=1%20--",
        "a very long token": token * 400,
        "a letter from elsewhere": token[:-1] + "%C5%81",
    }


async def forged(context: AttackContext) -> str:
    """Only the right token may open a seat, in the path, as bearer or as key, at both access points and the model
    API.
    """
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            async with context.episode(access_point) as other:
                closed = other.place.token
            for what, token in _forged(opened.place.token, opened, closed).items():
                for answer in await _knock(context, opened, what, token):
                    context.must_refuse(answer, f"{what} opens a seat at the {access_point}")
            if not (answer := await context.ask(opened, "tools/list")).is_granted:
                context.note(
                    f"after the forgeries the right token no longer opens its seat at the {access_point}", answer
                )
    return f"{context.wire.requests} knocks with forged tokens are refused"


async def _knock(context: AttackContext, opened: OpenEpisode, what: str, token: str) -> list[RawExchange]:
    base, wire = opened.place.base, context.wire
    plain = token if token.isascii() and "%" not in token and token else "x"
    bearer = {"Authorization": f"Bearer {plain}"}
    where = f"{what} at the {opened.access_point}"
    answers = [
        await raw_mcp.modern(wire, f"{where}, in the path", f"{base}/e/{token}/mcp", "tools/list"),
        await raw_mcp.modern(wire, f"{where}, as a bearer", f"{base}/mcp", "tools/list", headers=bearer),
        await raw_mcp.Session(wire, f"{where}, by handshake", f"{base}/e/{token}/mcp").begin(),
    ]
    if opened.place.llm_url is not None:
        for path, headers in ((f"/llm/{token}/v1/models", {}), ("/llm/v1/models", bearer | {"X-Api-Key": plain})):
            answers.append(await wire.send(f"{where}, at the model API", "GET", base + path, None, headers))
    return answers


async def places(context: AttackContext) -> str:
    """A token in a query, a cookie or Basic authentication must open nothing, nor change which seat the path opens."""
    for access_point in context.access_points:
        async with (
            context.episode(access_point) as opened,
            context.episode(access_point, card=_other_card(context)) as other,
        ):
            token, base = opened.place.token, opened.place.base
            wrong: list[tuple[str, dict[str, str]]] = [
                (f"/mcp?token={token}", {}),
                (f"/mcp?access_token={token}&api_key={token}", {}),
                ("/mcp", {"X-Api-Key": token}),
                ("/mcp", {"Cookie": f"token={token}"}),
                ("/mcp", {"Authorization": f"Basic {token}"}),
                ("/mcp", {"Authorization": token}),
                ("/mcp", {"Mcp-Session-Id": token}),
                (f"/e/x/mcp?token={token}", {"Authorization": f"Bearer {token}"}),
            ]
            for path, headers in wrong:
                where = (
                    f"token in {(path.partition('?')[2] and 'the query') or next(iter(headers))} at the {access_point}"
                )
                answer = await raw_mcp.modern(context.wire, where, base + path, "tools/list", headers=headers)
                context.must_refuse(answer, f"a token is taken from a place it does not belong to ({where})")
            mixed = {"Authorization": f"Bearer {other.place.token}"}
            where = f"one token in the path, another as bearer, at the {access_point}"
            params: dict[str, Any] = {"name": "get_task", "arguments": {}}
            own = await context.call(opened, "get_task", {})
            answer = await raw_mcp.modern(context.wire, where, opened.place.url, "tools/call", params, mixed)
            if answer.is_granted and answer.words != own.words:
                context.note("a second token changes whose seat a request is", answer)
    return "a token counts in the path and as a bearer alone"


def _other_card(context: AttackContext) -> TaskCard:
    return context.target.cards[-1]


async def expired(context: AttackContext) -> str:
    """The token of a closed episode must open nothing, at either access point and at the model API."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            session = await context.session(opened, "after the close")
            place = opened.place
        answers = await _after(context, access_point, session, place.url, [tool.name for tool in place.tools])
        if place.llm_url is not None:
            talk = b'{"model":"any","messages":[{"role":"user","content":"hi"}]}'
            url = f"{place.llm_url}/chat/completions"
            where = "a model call after the close"
            answers.append(await context.wire.send(where, "POST", url, talk, raw_mcp.ACCEPT))
        for answer in answers:
            context.must_refuse(answer, f"the token of a closed episode still opens something at the {access_point}")
    return f"{context.wire.requests} late requests get nothing"


async def _after(
    context: AttackContext, access_point: AccessPoint, session: raw_mcp.Session, url: str, names: Sequence[str]
) -> list[RawExchange]:
    where = f"after the close at the {access_point}"
    answers = [await raw_mcp.modern(context.wire, where, url, "tools/list"), await session.ask("tools/list")]
    answers.append(await raw_mcp.Session(context.wire, where, url).begin())
    for name in names:
        answers += [await raw_mcp.call(context.wire, where, url, name, {}), await session.call(name, {})]
    return answers


async def unguessable(context: AttackContext) -> str:
    """Tokens and ids of one task and seed must all differ, be long, and contain no known value."""
    tokens, ids, seats = list[str](), list[str](), list[list[str]]()
    began = time.monotonic()
    started = int(time.time())
    while len(ids) < SAMPLE and (len(ids) < 3 or time.monotonic() - began < SAMPLE_SECONDS):
        opened = await context.open_raw()
        seats.append([seat.token for seat in opened.seats])
        ids.append(opened.id)
        if (answer := await context.control("DELETE", f"/v1/episodes/{opened.id}")).status != 200:
            raise EpisodeError(f"an episode does not close: {answer.answer[:200]}")
    tokens = list(chain.from_iterable(seats))
    for what, found in (("tokens", tokens), ("episode ids", ids)):
        if len(set(found)) != len(found):
            context.note(f"{what} repeat: {len(found)} of them, {len(set(found))} different")
    bits = min(_bits(list(column)) for column in zip(*seats, strict=True))
    if bits < BITS:
        context.note(f"tokens vary in about {bits:.0f} bits over {len(ids)} episodes of one task; {BITS} are asked for")
    for token in tokens:
        if any(token in name or name in token for name in ids):
            context.note("a token holds its episode's id, or the other way round")
            break
    known = [*ids, context.target.name, context.target.cards[0].public.id, context.target.control_token]
    if made := _made_of([*known, *map(str, range(2000)), *map(str, range(started - 5, started + 60))], tokens):
        context.note(f"a token is {made}")
    return f"{len(tokens)} tokens, all different, about {bits:.0f} bits each"


def _bits(tokens: list[str]) -> float:
    """A lower bound on the random bits of a token, from the characters seen at each place over the sample.

    A place of a random token shows nearly as many characters as there are tokens; one of a counter or clock shows one.
    """
    if len({len(token) for token in tokens}) > 1:
        tokens = [token[: min(map(len, tokens))] for token in tokens]
    alphabet = len(set("".join(tokens)))
    total = 0.0
    for column in zip(*tokens, strict=True):
        seen = len(set(column))
        # As many as a random place would show of this alphabet, on average.
        expected = alphabet * (1 - (1 - 1 / alphabet) ** len(tokens)) if alphabet > 1 else 1.0
        total += math.log2(alphabet) * min(1.0, seen / expected) if seen > 1 else 0.0
    return total


def _made_of(known: Sequence[str], tokens: Sequence[str]) -> str | None:
    taken = set(tokens)
    for text in known:
        if text in taken:
            return "a number, a name or an id that is known"
        for algorithm in ("md5", "sha1", "sha256"):
            digest = hashlib.new(algorithm, text.encode()).hexdigest()
            if digest in taken or any(len(token) >= 16 and digest.startswith(token) for token in taken):
                return f"the {algorithm} of a number, a name or an id that is known"
    return None


async def adopted(context: AttackContext) -> str:
    """A client must not get a session or an episode by sending an id that it made up."""
    made_up = "00000000-0000-4000-8000-000000000000"
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            headers = {"Mcp-Session-Id": made_up, "MCP-Protocol-Version": raw_mcp.LEGACY[0]}
            session = raw_mcp.Session(context.wire, f"a made-up session at the {opened.access_point}", opened.place.url)
            session.headers = headers
            answer = await session.ask("tools/list")
            if answer.is_granted and answer.headers.get("mcp-session-id") == made_up:
                context.note("a made-up session id is adopted", answer)
    card = context.target.cards[0]
    task = {"id": card.public.id, "split": card.split, "seed": context.target.seed}
    answer = await context.control("POST", "/v1/episodes", {"task": task, "id": "mine", "token": "mine"})
    if answer.status == 200:
        context.note("an episode is opened under an id of its caller's", answer)
        await context.control("DELETE", f"/v1/episodes/{answer.message.get('id')}")
    return "made-up ids are refused"


ATTACKS = (
    Attack("forged-tokens", "L10", "no token but the right one opens a seat", forged),
    Attack("token-places", "L10", "a token is taken from the path or as a bearer, and from nowhere else", places),
    Attack("expired-tokens", "L10", "the token of a closed episode opens nothing", expired),
    Attack("guessable-tokens", "L10", f"tokens and ids are unique, and hold at least {BITS} bits", unguessable),
    Attack("adopted-ids", "L10", "ids that a client makes up are not taken over", adopted),
)
