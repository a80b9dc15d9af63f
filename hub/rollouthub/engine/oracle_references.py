"""Checks that every task has a reference solution for the oracle to play, before the first episode."""

from contextlib import aclosing

from rollouthub.engine.agent_kind import kind_of
from rollouthub.engine.plan import Plan
from rollouthub.engine.task_selection import chosen_tasks
from rollouthub.errors import ConfigError
from rollouthub.protocols import Agent, EnvironmentHost, TaskCard
from rollouthub.task import BadRow

MOST_NAMED = 3


class References:
    """Counts an environment's tasks that lack a reference solution, as far as their cards say."""

    def __init__(self, environment: str, agent: Agent) -> None:
        self._environment = environment
        self._is_asked = is_reference_player(agent)
        self._count = self._lacking = 0
        self._named: list[str] = []

    def look(self, card: TaskCard) -> None:
        """Count a task."""
        if not self._is_asked:
            return
        self._count += 1
        if card.has_reference is False:
            self._lacking += 1
            if len(self._named) < MOST_NAMED:
                self._named.append(card.public.id)

    def check(self) -> None:
        """Refuse a run in which the oracle could not play all tasks.

        Raises:
            ConfigError: tasks lack a reference; says how many.
        """
        if not self._lacking:
            return
        if self._lacking == self._count:
            only = f"task {self._named[0]!r} of {self._environment} has no reference"
            none = f"none of the {self._count} tasks of {self._environment} has a reference"
            raise ConfigError(
                f"{none if self._count > 1 else only} for the oracle; "
                "name a model with -m, for example -m hosted_vllm/NAME"
            )
        named = ", ".join(map(repr, self._named)) + (" …" if self._lacking > len(self._named) else "")
        raise ConfigError(
            f"{self._lacking} of {self._count} tasks of {self._environment} have no reference for the oracle: {named}; "
            "name a model with -m, or choose other tasks with --task"
        )


def is_reference_player(agent: Agent) -> bool:
    """Whether an agent plays reference solutions."""
    return kind_of(type(agent)) == "reference"


async def check_references(plan: Plan, host: EnvironmentHost) -> None:
    """Refuse a plan whose agent plays reference solutions if some of the requested tasks have none.

    Raises:
        ConfigError: tasks lack a reference; says how many.
        DataError: a row is not a valid task, and bad rows are not skipped.
    """
    split = plan.request.split or host.info.splits[0]
    if plan.subset is not None or plan.asks_for_agent or split not in host.info.splits:
        return
    references = References(host.info.name, plan.agent)
    async with aclosing(chosen_tasks(host, split, plan.request, plan.seed, {})) as cards:
        async for card in cards:
            if not isinstance(card, BadRow):
                references.look(card)
    references.check()
