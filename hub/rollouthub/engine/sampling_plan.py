"""Chooses some tasks of a plan, spread evenly over each environment's tasks, to be played before the rest."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import Plan, TaskSubset
from rollouthub.engine.pool_options import RunLimits
from rollouthub.limits import Limits
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.agents import find_agent
from rollouthub.protocols import IDLE_AGENT, EnvironmentInfo
from rollouthub.task import BadRow


@dataclass(frozen=True)
class SamplePlan:
    """The number of planned tasks, and the chosen subset."""

    tasks: dict[str, int]
    """Environment → number of planned tasks."""
    subset: TaskSubset
    hosted: tuple[tuple[EnvironmentInfo, str], ...]
    """Each environment's description, and the split that is planned."""


async def choose_sample(plan: Plan, credentials: Credentials, tasks: int) -> SamplePlan:
    """Choose `tasks` tasks of each environment; all tasks of one that has fewer, with more samples of each if the plan
    has them.

    Nothing is played, so no model is needed.

    Raises:
        UsageError: an environment cannot be hosted, a row is not a valid task, or there is no task.
    """
    counts: dict[str, int] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    async with open_plan(_unplayed(plan), credentials) as opened:
        await opened.count()  # complains of what cannot be played
        hosted = tuple((each.host.info, each.split) for each in opened.environments)
        for environment in opened.environments:
            name = environment.host.info.name
            counts[name] = count = await _count(opened, environment)
            wanted = {place * count // tasks + count // (2 * tasks) for place in range(tasks)}
            ids = [task_id async for place, task_id in _ids(opened, environment) if count <= tasks or place in wanted]
            chosen[name] = tuple(ids)
    repeats = -(-tasks // min(len(ids) for ids in chosen.values()))
    return SamplePlan(counts, TaskSubset(chosen, min(repeats, plan.request.repeats)), hosted)


def _unplayed(plan: Plan) -> Plan:
    """The plan without its models and players, which is enough to read its tasks."""
    silent = ModelConfig(name="mock/say?text=-")
    update = {
        "model": None,
        "seats": {},
        "roles": dict.fromkeys(plan.request.roles, silent),
        "run_limits": RunLimits(),
        "limits": Limits(),
        "traces": None,
    }
    return replace(
        plan, request=plan.request.model_copy(update=update), model=None, agent=find_agent(IDLE_AGENT, {}), seats={}
    )


async def _count(opened: OpenPlan, environment: OpenEnvironment) -> int:
    count = 0
    async for _ in _ids(opened, environment):
        count += 1
    return count


async def _ids(opened: OpenPlan, environment: OpenEnvironment) -> AsyncIterator[tuple[int, str]]:
    place = 0
    async for card in opened.tasks(environment):
        if not isinstance(card, BadRow):
            yield place, card.public.id
            place += 1
