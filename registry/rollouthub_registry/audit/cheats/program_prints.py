"""A program that prints what a runner of tests would print, and ends the process."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.forged_verdict import PYTHON


async def act(cheater: Cheater) -> None:
    """Answer with it."""
    program = await cheater.program()
    cheater.answer(program.with_functions(PYTHON, "return None"))


CHEAT = Cheat(
    name="program-prints",
    defect="L8",
    title="what a program prints is not taken for the verdict of its tests",
    source="arXiv:2606.08960 (output spoofing)",
    act=act,
    needs="a program",
)
