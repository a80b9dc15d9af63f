"""An answer that is an expression, and equal to everything if the verifier evaluates it."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped

_EQUAL = (
    "type('E', (float,), {'__eq__': lambda s, o: True, '__ne__': lambda s, o: False, '__hash__': float.__hash__})()"
)


async def act(cheater: Cheater) -> None:
    """Answer with it."""
    answer = await cheater.task.answer()
    try:
        await cheater.program()
    except ProbeSkipped:
        boxed = answer is not None and "\\boxed{" in answer.text
        cheater.answer(f"\\boxed{{{_EQUAL}}}" if boxed else _EQUAL)
    else:
        raise ProbeSkipped("the answer is a program, which may well be run")


CHEAT = Cheat(
    name="evaluated-answers",
    defect="L12",
    title="an answer is not run as code by the verifier",
    source="Wang et al., How We Broke Top AI Agent Benchmarks (UC Berkeley RDI, 2026)",
    act=act,
    needs="an answer",
    aims_at_all=True,
)
