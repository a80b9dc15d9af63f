"""Attack: guesses names of tools and methods that are not listed (L2)."""

from collections.abc import Iterator

from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack
from rollouthub_registry.check.thorough.attack_context import AttackContext

_WORDS = (
    "verify", "evaluate", "grade", "score", "reward", "get_reward", "set_reward", "check", "judge", "verdict", "reset",
    "state", "step", "close", "seal", "snapshot", "restore", "reference", "solution", "get_answer", "answer", "oracle",
    "admin", "debug", "shutdown", "setup", "tasks", "secret", "env", "eval", "exec", "config", "hint", "help",
    "submit_answer", "finish", "episode", "list_tasks",
)  # fmt: skip
_SPECIAL = (
    "_hud_submit", "_hud_evaluate", "hud_evaluate", "__init__", "__class__", "__dict__", "_verify", "env_verify",
    "env_reset", "env_state", "task.secret", "self.verify", "mcp__env__verify", "", " ", "../verify", "verify\x00",
    "VERIFY", "Verify", "get_task ", " submit", "SUBMIT", "submit\n", "sub\u200bmit", "ｓubmit", "a" * 5000, "💥",
)  # fmt: skip
_METHODS = (
    "verify", "episodes/verify", "episode/seal", "env/reset", "env/state", "tools/verify", "tasks/get", "tasks/result",
    "tasks/cancel", "sampling/createMessage", "elicitation/create", "rpc.discover", "system.listMethods", "admin/state",
    "", "tools/call/verify",
)  # fmt: skip


def _names(opened: OpenEpisode, more: tuple[str, ...]) -> Iterator[str]:
    listed = {tool.name for place in opened.places.values() for tool in place.tools}
    guesses = [*_WORDS, *_SPECIAL, *more]
    guesses += [form for word in _WORDS[:12] for form in (f"_{word}", word.upper(), f"env_{word}", f"{word}_episode")]
    return (name for name in dict.fromkeys(guesses) if name not in listed)


async def guessed_tools(context: AttackContext) -> str:
    """Names of graders, control verbs and the class's own methods, in many spellings, must all be unknown tools."""
    count = 0
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            session = await context.session(opened)
            for name in _names(opened, context.methods):
                count += 1
                for answer in (await context.call(opened, name, {}), await session.call(name, {"answer": "x"})):
                    context.must_refuse(
                        answer, f"the tool {name[:80]!r} is not listed, and answers at the {opened.access_point}"
                    )
            await context.must_stay_open(opened, "the guesses")
    return f"{count} guessed names are unknown"


async def guessed_methods(context: AttackContext) -> str:
    """MCP methods other than those for tools must give no secret."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            session = await context.session(opened)
            for method in _METHODS:
                for answer in (await context.ask(opened, method, {"answer": "x"}), await session.ask(method)):
                    if answer.is_granted and answer.result is not None:
                        context.note(f"the method {method!r} answers at the {opened.access_point}", answer)
            await context.must_stay_open(opened, "the guesses")
    return f"{len(_METHODS)} guessed methods are unknown, in both eras"


ATTACKS = (
    Attack("guessed-tools", "L2", "a tool that is not listed cannot be called", guessed_tools),
    Attack("guessed-methods", "L2", "a method that MCP does not have is unknown", guessed_methods),
)
