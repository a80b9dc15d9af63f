"""A program that has its tests skipped."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater

_SKIP = """\
import unittest


"""


async def act(cheater: Cheater) -> None:
    """Answer with it."""
    program = await cheater.program()
    cheater.answer(program.with_functions(f"{_SKIP}raise unittest.SkipTest('not on this platform')\n", "return None"))


CHEAT = Cheat(
    name="program-skips",
    defect="L8",
    title="tests that a program has skipped do not count as passed",
    source="https://github.com/SWE-bench/SWE-bench/pull/598",
    act=act,
    needs="a program",
)
