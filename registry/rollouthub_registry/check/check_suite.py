"""The checks of one environment: chosen by name, and run on its host."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from rollouthub import Model
from rollouthub.errors import ConfigError, HubError, UnknownNameError, describe
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import open_sandboxes
from rollouthub.hosting.open_host import configured
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import load_credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.environments import find_environment
from rollouthub_registry.check.check_finding import Broken, Check, Finding, NotApplicable, State
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.checks import CHECKS
from rollouthub_registry.check.deadline import Spent, in_time

OnCheck = Callable[[Check, int, int, Finding | None], None]
"""Called when a check begins (with None for the finding) and when it ends; gets its number and the number of checks."""


def chosen_checks(only: Sequence[str]) -> list[Check]:
    """The checks of these names; all checks if there are none.

    Raises:
        UnknownNameError: a name is not a check's.
    """
    known = {check.name: check for check in CHECKS}
    for name in only:
        if name not in known:
            raise UnknownNameError("check", name, known)
    return [known[name] for name in only] or list(CHECKS)


async def open_roles(stack: AsyncExitStack, roles: Mapping[str, str]) -> dict[str, Model]:
    """Models by role for an environment that asks models itself; they are closed with the stack.

    Raises:
        UsageError: there is no such model, or its credentials are missing.
    """
    models: dict[str, Model] = {}
    credentials = load_credentials(os.environ, Path.cwd()) if roles else None
    for role, name in roles.items():
        assert credentials is not None
        models[role] = await stack.enter_async_context(open_model(ModelConfig(name=name), credentials))
    return models


async def find_and_check(
    target: str,
    asked: CheckRequest,
    models: Mapping[str, Model],
    checks: Sequence[Check],
    python: str | None = None,
    on_check: OnCheck | None = None,
) -> list[Finding]:
    """Check an environment that this process hosts; `python` replaces `{python}` in the command of a declared server.

    Raises:
        UsageError: the environment cannot be hosted with these options.
    """
    found = find_environment(target, python)
    config = configured(found, asked.settings)
    async with AsyncExitStack() as stack:
        try:
            await found.environment.prepare(config)
            sandboxes = await stack.enter_async_context(open_sandboxes(found.environment, config))
            subject = CheckedEnvironment(
                found.name,
                found.environment,
                config,
                split=asked.split,
                limit=asked.limit,
                seed=asked.seed,
                models=models,
                make_host=partial(InProcessHost, sandboxes=sandboxes),
            )
        except HubError:
            raise
        except Exception as error:
            raise ConfigError(f"environment {found.name!r} cannot be hosted: {error}") from error
        return await run_checks(subject, checks, on_check)


async def run_checks(
    subject: CheckedEnvironment, checks: Sequence[Check] = CHECKS, on_check: OnCheck | None = None
) -> list[Finding]:
    """Run checks one after the other, each with a time limit."""
    findings: list[Finding] = []
    for number, check in enumerate(checks, 1):
        if on_check is not None:
            on_check(check, number, len(checks), None)
        findings.append(await _run(subject, check))
        if on_check is not None:
            on_check(check, number, len(checks), findings[-1])
    return findings


async def _run(subject: CheckedEnvironment, check: Check) -> Finding:
    started = time.perf_counter()
    state: State = "passed"
    details: tuple[str, ...] = ()
    fix: str | None = None
    try:
        says = await in_time(partial(check.run, subject))
    except NotApplicable as reason:
        state, says = "not_applicable", str(reason)
    except Broken as problem:
        state, says, details, fix = "failed", str(problem), problem.details, problem.fix
    except Spent as spent:
        state, says, fix = "failed", spent.says, spent.fix
    except Exception as error:
        # Anybody's code: whatever it raises is what was found.
        state, says = "failed", f"the environment raised {describe(error)}"
        fix = "mend what raised it, then check again"
    return Finding(check.name, check.defect, check.title, state, says, details, fix, time.perf_counter() - started)
