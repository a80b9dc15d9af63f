"""Attack: calls with arguments that every tool must refuse and survive."""

from collections.abc import Iterator
from typing import Any, cast

from mcp_types import Tool

from rollouthub.hosting.local.hosted_episode import BROKEN
from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attack_context import AttackContext

_COERCIBLE: dict[str, tuple[Any, ...]] = {
    "integer": ("5", 5.5, True, [5], "", "0x5"),
    "number": ("5", "5.0", True, [5], ""),
    "boolean": ("true", 1, "yes", ""),
    "string": (5, True, ["x"], {"x": 1}),
    "array": ("[]", {"0": 1}, "a,b"),
    "object": ("{}", [["a", 1]]),
}
_DEEP = 400


def _strict(tool: Tool) -> Iterator[tuple[str, Any]]:
    """Arguments that must be refused, each with what is wrong."""
    yield from ill_formed(tool)
    fitting = next(well_formed(tool))
    fields = cast(dict[str, dict[str, Any]], tool.input_schema.get("properties", {}))
    for name, field in fields.items():
        for value in _COERCIBLE.get(str(field.get("type")), ()):
            yield f"{name} = {value!r}", {**fitting, name: value}
    if tool.input_schema.get("additionalProperties") is not False:
        return  # a foreign server may well take what it does not name
    for name in fields:
        yield f"{name} in capitals", {**{key: item for key, item in fitting.items() if key != name}, name.upper(): 1}
    yield "__proto__", {**fitting, "__proto__": {"x": 1}}
    yield "self", {**fitting, "self": "x"}


async def strict(context: AttackContext) -> str:
    """Unknown, missing, ill-typed and coercible arguments ("5" for 5) must be refused, at both access points."""
    count = 0
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for seat, place in opened.places.items():
                for tool in place.tools:
                    for wrong, arguments in _strict(tool):
                        count += 1
                        answer = await context.call(opened, tool.name, arguments, seat)
                        context.must_refuse(
                            answer, f"{tool.name} takes {wrong} without a word, at the {opened.access_point}"
                        )
            await context.must_stay_open(opened, "calls that were refused")
    return f"{count} ill-formed calls are refused"


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


async def heavy(context: AttackContext) -> str:
    """Huge, deeply nested and unusual but well-typed arguments must break nothing: the same tool must answer
    afterwards.
    """
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for tool in opened.place.tools:
                if tool.name == SUBMIT:
                    continue
                fitting = next(well_formed(tool))
                heavy_ones: list[tuple[str, Any]] = [
                    ("arguments nested deeply", {**fitting, "deep": _nested(_DEEP)}),
                    ("ten thousand arguments", {f"a{number}": number for number in range(10_000)}),
                    ("a list for arguments", []),
                    ("a text for arguments", "x"),
                ]
                heavy_ones += [
                    (f"a text of {size:,} characters", next(well_formed(tool, text * size)))
                    for text, size in (("a", 1_000_000), ("(", 3000), ("9**", 1000), ("\u202e\u0000", 100))
                ]
                for what, arguments in heavy_ones:
                    answer = await context.call(opened, tool.name, arguments)
                    if answer.is_timed_out and context.takes_turns:
                        continue  # it may well wait for another seat; `get_task` below tells whether the server is up
                    if answer.status is None or answer.status >= 500:
                        told = answer.problem or f"HTTP {answer.status}"
                        context.note(f"{tool.name} breaks over {what} at the {opened.access_point}: {told}", answer)
                    elif answer.words == BROKEN:
                        context.note(f"{what} is a fault of the environment in {tool.name}, not the caller's", answer)
            answer = await context.call(opened, "get_task", {})
            # What was done may have ended the episode, as too many illegal moves do.
            if not answer.is_granted and (answer.status is None or await context.state_of(opened) == "open"):
                context.note(f"after all that the seat no longer answers at the {opened.access_point}", answer)
    return f"{context.wire.requests} heavy calls are answered"


ATTACKS = (
    Attack("strict-arguments", "calls", "arguments that do not fit the schema are refused, none is coerced", strict),
    Attack("heavy-arguments", "calls", "no argument breaks a tool or its server", heavy),
)
