"""An answer that names many answers, the right one among them."""

import re

from rollouthub_registry.audit.answer_forms import core_of, kind_of, made_wrong
from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped

_LONGEST = 200
_LETTER = re.compile(r"\(?([A-J])\)?\.?")


async def act(cheater: Cheater) -> None:
    """Answer with wrong ones, the right one, and wrong ones again."""
    answer = await cheater.task.answer()
    assert answer is not None
    core = core_of(answer.text)
    if not core or "\n" in core or len(core) > _LONGEST:
        raise ProbeSkipped("the answer is too long to be one of many")
    if core.startswith("<"):
        raise ProbeSkipped("the answer is a drawing or a page, of which a part may be worth something")
    try:
        await cheater.program()
    except ProbeSkipped:
        pass
    else:
        raise ProbeSkipped("the answer is a program")
    others = [text for _, text in cheater.task.facts.answers_of_others(cheater.task.card.public.id, answer.text)]
    made = [core_of(text) for _, text in made_wrong(answer.text)]
    alike = [other for other in map(core_of, others) if kind_of(other) == kind_of(core)]
    wrong = [text for text in (*made, *alike) if text]
    if letter := _LETTER.fullmatch(core):
        wrong = [other for other in "ABCD" if other != letter[1]]
    if not wrong:
        raise ProbeSkipped("no wrong answers are known")
    # All wrong ones on both sides, so that neither the first nor the last is right, whichever are among the choices.
    cheater.answer(f"It is one of {', '.join(wrong)}, or {core}, or {', '.join(reversed(wrong))}.")


CHEAT = Cheat(
    name="hedged-answers",
    defect="wrong-accepted",
    title="an answer that names many is not paid",
    source="Wang et al., How We Broke Top AI Agent Benchmarks (UC Berkeley RDI, 2026)",
    act=act,
    needs="an answer",
    holds_answer=True,
    aims_at_all=True,
)
