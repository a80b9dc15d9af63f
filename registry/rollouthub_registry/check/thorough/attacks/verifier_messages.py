"""Attack: odd submissions whose verifier messages must not reach the agent (L11)."""

from typing import Any, cast

from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.attacks.payloads import ODD_ANSWERS
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

_SHORTEST = 12
_AT_GATEWAY = 4
_TRACES = (b"Traceback (most recent call last)", b"VerifierError", b"site-packages/")


async def odd_submissions(context: AttackContext) -> str:
    """`submit` must answer the same to any submission, and the verifier's messages must not reach the agent
    afterwards.
    """
    usual: str | None = None
    for access_point in context.access_points:
        for answer in ODD_ANSWERS if access_point == "server" else ODD_ANSWERS[:_AT_GATEWAY]:
            async with context.episode(access_point) as opened:
                if not opened.submits:
                    raise NotTried("its tasks ask for no answer to hand in")
                tried = [
                    await context.call(opened, tool.name, next(well_formed(tool, answer[:200])))
                    for tool in opened.place.tools
                    if tool.name != SUBMIT
                ]
                said = await context.call(opened, SUBMIT, {"answer": answer})
                if said.is_granted:
                    usual = usual or said.words
                    if said.words != usual:
                        told = f"`submit` says {said.words[:80]!r} of one answer and {usual[:80]!r} of another"
                        context.note(f"{told}, at the {access_point}", said)
                words = await _verdict_words(context, opened)
                for exchange in [*tried, said, *await _afterwards(context, opened)]:
                    if met := next((text for text in words if text.encode() in exchange.body), None):
                        context.note(
                            f"the verifier's words {met[:80]!r} are shown to the agent at the {access_point}", exchange
                        )
    return f"{len(ODD_ANSWERS)} odd answers, none of which is told what the verifier made of it"


async def _verdict_words(context: AttackContext, opened: OpenEpisode) -> set[str]:
    """Texts that the verifier reports to the hub about the episode: feedback, faults, names of reward components."""
    answer = await context.control("POST", f"/v1/episodes/{opened.id}/verify", {}, target=opened.target)
    found: set[str] = set()
    message = answer.message
    _collect({key: message.get(key) for key in ("error", "score")}, found)
    return {text for text in found if len(text) >= _SHORTEST and text != opened.target.name}


def _collect(value: Any, found: set[str]) -> None:
    if isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            if key not in ("type", "verifier", "name", "version", "digest"):
                _collect(item, found)
    elif isinstance(value, list):
        for item in cast(list[Any], value):
            _collect(item, found)
    elif isinstance(value, str):
        found.add(value)


async def _afterwards(context: AttackContext, opened: OpenEpisode) -> list[RawExchange]:
    found = [await context.ask(opened, "server/discover"), await context.ask(opened, "tools/list")]
    found.append(await raw_mcp.Session(context.wire, f"at the {opened.access_point}", opened.place.url).begin())
    found += [await context.call(opened, tool.name, {}) for tool in opened.place.tools]
    return found


async def traces(context: AttackContext) -> str:
    """No error of a tool or a request may contain a traceback of the server."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for tool in opened.place.tools:
                # A tool that runs programs shows theirs: only calls that run none are sent.
                nothing = dict.fromkeys(_named(tool.input_schema))
                calls: tuple[Any, ...] = ({"no_such_argument": 1}, [], "x", None, nothing)
                for arguments in calls:
                    answer = await context.call(opened, tool.name, arguments)
                    if any(trace in answer.body for trace in _TRACES):
                        context.note(
                            f"an error of {tool.name} is the server's own at the {opened.access_point}", answer
                        )
    return f"{context.wire.requests} errors tell what was wrong with the call, and nothing of the server"


def _named(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("properties", {}))


ATTACKS = (
    Attack("verifier-words", "L11", "nothing the verifier says of an answer reaches the agent", odd_submissions),
    Attack("error-texts", "L11", "no error shows the inside of the server", traces),
)
