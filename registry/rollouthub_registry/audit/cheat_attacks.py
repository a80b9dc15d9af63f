"""The cheats as attacks of `hub check --thorough`, on the first task of the environment."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.engine.episode_seed import episode_seed
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.cheats.cheat import Cheat, try_cheat
from rollouthub_registry.audit.task_under_audit import ProbeSkipped, TaskUnderAudit
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext


def cheat_attacks() -> Sequence[Attack]:
    """An attack for each cheat of the library; together they keep what is known of the task."""
    known = _FirstTask()
    return [_attack(cheat, known) for cheat in all_cheats()]


@dataclass
class _FirstTask:
    """The first task of the environment that is attacked."""

    context: AttackContext | None = None
    task: TaskUnderAudit | None = None

    def of(self, context: AttackContext) -> TaskUnderAudit:
        """The task, made anew for another environment."""
        if self.task is None or self.context is not context:
            at, card = context.target, context.target.cards[0]
            seed = episode_seed(at.seed, at.host.info.name, card.split, card.public.id)
            self.context, self.task = context, TaskUnderAudit(at.host, card, seed, context.deadlines)
        return self.task


def _attack(cheat: Cheat, known: _FirstTask) -> Attack:
    async def run(context: AttackContext) -> str:
        task = known.of(context)
        task.begin(cheat.name, cheat.defect, cheat.source)
        try:
            says = await try_cheat(cheat, task)
        except ProbeSkipped as reason:
            raise NotTried(str(reason)) from None
        for finding in task.findings:
            context.note(finding.says)
        return says

    return Attack(cheat.name, cheat.defect, cheat.title, run)
