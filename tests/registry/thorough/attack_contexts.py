"""Environments attacked in this process: served over real HTTP, as their own process would, and quick to bring up."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from rollouthub import EnvironmentConfig
from rollouthub.environment import AnyEnvironment
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.server.serve import Service, serving_host
from rollouthub.protocols import EnvironmentHost
from rollouthub_registry.audit.cheat_attacks import cheat_attacks
from rollouthub_registry.check.thorough.attack import AttackResult
from rollouthub_registry.check.thorough.attack_context import AttackContext, Tools
from rollouthub_registry.check.thorough.attack_setup import attack_context_of, twins_at
from rollouthub_registry.check.thorough.attacks import ATTACKS
from rollouthub_registry.check.thorough.campaign import make_attack
from rollouthub_registry.check.thorough.canary_twin import fields_of, twin_of
from rollouthub_registry.check.thorough.target import Target, answers_of, local_tasks, reach, secrets_of

TOKEN = "control-credential-of-a-test-51d0c7e2"
KEY = "a key that only this test knows"
CHEATS = cheat_attacks()
BY_NAME = {attack.name: attack for attack in (*ATTACKS, *CHEATS)}
MakeHost = type[InProcessHost]


@asynccontextmanager
async def attacked(
    environment: AnyEnvironment, make_host: MakeHost = InProcessHost, *, is_planted: bool = True
) -> AsyncGenerator[AttackContext]:
    """An environment, and its planted twin, behind servers of their own and a gateway."""
    async with AsyncExitStack() as stack:
        config: EnvironmentConfig = environment.config_type()
        host = make_host("world", environment, config)
        target = await _served(stack, host)
        tasks = local_tasks(environment, config, target.split, 0, 2)
        target.watched += secrets_of(tasks, environment, environment.config_type())
        target.answers = answers_of(tasks)
        twins: list[Target] = []
        fields = [(field, canary) for field, canary, _ in fields_of(tasks[0], KEY)]
        if is_planted and fields:
            twin = make_host("world", twin_of(environment, KEY, 0, __name__), config)
            twins = await twins_at(await _served(stack, twin), fields)
        why = None if twins else "this test plants nothing"
        context = await attack_context_of(stack, target, twins, why, Tools())
        context.methods = tuple(name for name in dir(environment) if not name.startswith("__"))
        yield context


async def _served(stack: AsyncExitStack, host: EnvironmentHost) -> Target:
    serving = await stack.enter_async_context(serving_host(host, Service("world", control_token=TOKEN)))
    return await stack.enter_async_context(reach(serving.ready.control_url, TOKEN, None, 0, 2))


async def made(
    name: str, environment: AnyEnvironment, make_host: MakeHost = InProcessHost, *, is_planted: bool = True
) -> AttackResult:
    """One attack on an environment, at its own server."""
    async with attacked(environment, make_host, is_planted=is_planted) as context:
        context.access_points = ("server",)
        return await make_attack(context, BY_NAME[name])


def said(verdict: AttackResult) -> str:
    """All that broke, in its words."""
    return "\n".join(problem.says for problem in verdict.problems)
