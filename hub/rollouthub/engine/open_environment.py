"""Hosts an environment of a run: in this process, in a process of its own, or attached to a running server."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from rollouthub.engine.cost_limits import check_limits
from rollouthub.engine.oracle_references import check_references, is_reference_player
from rollouthub.engine.plan import Plan, PlannedEnvironment
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import UnknownNameError
from rollouthub.generation import Model
from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.hosting.open_host import open_attached, open_in_process, open_installed, open_served
from rollouthub.hosting.role_endpoints import serve_roles, serve_roles_for
from rollouthub.hosting.wall.wall import choice_for
from rollouthub.limits import DEFAULT_LIMITS, Deadlines, Limits
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.installed import Installation
from rollouthub.protocols import EnvironmentHost


@dataclass(frozen=True)
class OpenEnvironment:
    """One environment of a run, hosted."""

    host: EnvironmentHost
    split: str
    limits: Limits
    """The limits in force: the caller's, else the environment's, else the hub's."""
    deadlines: Deadlines
    """The deadlines in force: the caller's, else the environment's."""


@asynccontextmanager
async def hosted(
    planned: PlannedEnvironment, plan: Plan, roles: Mapping[str, Model], credentials: Credentials
) -> AsyncGenerator[EnvironmentHost]:
    """Host a planned environment as the plan says, with the models of its roles.

    Raises:
        UsageError: the environment cannot be hosted.
        TaskError: its server does not start.
    """
    if planned.is_attached:
        async with open_attached(planned.target, credentials.key(TOKEN_VARIABLE)) as host:
            yield host
        return
    if not planned.is_served:
        assert planned.local is not None
        found, config = planned.local
        look = partial(check_references, plan) if is_reference_player(plan.agent) else None
        async with open_in_process(planned.name, found.environment, config, roles, look=look) as host:
            yield host
        return
    if planned.local is not None:
        found, config = planned.local
        roles = {role: roles[role] for role in found.environment.roles(config) if role in roles}
    request = plan.request
    async with AsyncExitStack() as stack:
        if planned.installation is not None:
            wall = choice_for(planned.installation, request.wall_choice)
            endpoints = await stack.enter_async_context(serve_roles_for(wall, roles))
            more = (planned.settings, endpoints, request.servers)
            opening = open_installed(planned.installation, *more, traces=request.traces, wall=wall)
        else:
            endpoints = await stack.enter_async_context(serve_roles(roles))
            more = (planned.settings, endpoints, request.servers)
            opening = open_served(planned.target, *more, traces=request.traces)
        async with opening as host:
            yield host


def with_bounds(host: EnvironmentHost, request: RunRequest, is_priced: bool) -> OpenEnvironment:
    """A hosted environment with the request's split, limits and deadlines.

    Raises:
        UnknownNameError: the environment has no such split.
        ConfigError: a limit cannot take effect.
    """
    info = host.info
    split = request.split or info.splits[0]
    if split not in info.splits:
        raise UnknownNameError(f"split of {info.name}", split, info.splits)
    limits = request.limits.or_else(info.limits).or_else(DEFAULT_LIMITS)
    deadlines = request.deadlines.or_else(info.deadlines)
    check_limits(limits, deadlines, is_priced)
    return OpenEnvironment(host, split, limits, deadlines)


def bundle_digests(installation: Installation | None) -> dict[str, str]:
    """Digests of an installed environment's bundle and dependencies; empty if it was not installed from a bundle."""
    if installation is None:
        return {}
    locked = installation.locked
    found = {"bundle": locked.bundle, "dependencies": locked.dependencies_digest}
    return {key: digest for key, digest in found.items() if digest is not None}
