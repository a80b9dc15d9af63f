"""Opens a service: environments, models, a gateway, and the run that records the episodes."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.run import RunSink
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.session import open_session
from rollouthub.errors import ConfigError, raise_first_error
from rollouthub.gateway.gateway import Gateway, open_gateway
from rollouthub.gateway.sessions.external_agent import EXTERNAL_AGENT, AbsentAgent
from rollouthub.gateway.sessions.open_sessions_log import OpenSessionsLog, read_sessions_log
from rollouthub.gateway.sessions.service import HubService, Served, practice_seed
from rollouthub.gateway.sessions.service_rules import GatewayPlace, ServiceRules
from rollouthub.gateway.sessions.session_player import SessionPlayer
from rollouthub.gateway.sessions.task_picker import TaskPicker
from rollouthub.hosting.local.toolbox import LISTEN
from rollouthub.models.credentials import Credentials
from rollouthub.protocols import EnvironmentInfo
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter

STOP_SECONDS = 6.0
"""Most seconds to close all open episodes when the service stops; the remaining ones are then recorded unfinished."""
WILDCARDS = ("0.0.0.0", "::")
_RULES, _PLACE = ServiceRules(), GatewayPlace()


def external_agents_plan(request: RunRequest) -> Plan:
    """A plan in which outside agents play all seats that the request gives no player.

    Raises:
        UsageError: a name is unknown, or a setting is invalid.
    """
    request = request.model_copy(update={"agent": None, "agent_set": {}})
    return replace(make_plan(request, external_agents=True), agent=AbsentAgent(), agent_name=EXTERNAL_AGENT)


@asynccontextmanager
async def open_service(
    plan: Plan,
    directory: Path,
    credentials: Credentials,
    *,
    given: str = "",
    resume: bool = False,
    rules: ServiceRules = _RULES,
    place: GatewayPlace = _PLACE,
    live: LiveRun | None = None,
    on_commit: Callable[[Sequence[Rollout]], None] | None = None,
    give_up: Callable[[], None] = lambda: None,
) -> AsyncGenerator[HubService]:
    """Open a service without a control plane: for a serving hub, or to play a single episode.

    When the context ends, every open episode is ended, unscored; `give_up` is called if that takes too long.
    `on_commit` is called with records once they are durable. Example:

        async with open_service(external_agents_plan(request), Path("runs/one"), keys) as hub:
            session = await hub.open(EpisodeRequest())
            ...  # an agent plays at session.address
            rollout = await session.verify()

    Raises:
        UsageError: the plan is invalid, the directory cannot be used, an address cannot be bound.
        StoreError: the store failed; records committed before are safe.
    """
    if place.host in WILDCARDS and place.public_url is None:
        raise ConfigError(f"agents cannot reach {place.host}: say how they do, with --public-url http://HOST:PORT")
    async with raise_first_error(), AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            open_gateway(place.host, place.port, place.public_url, rules.requests_per_second)
        )
        session = await stack.enter_async_context(
            open_session(plan, directory, given=given, resume=resume, credentials=credentials, live=live)
        )
        if on_commit is not None:
            session.on_commit.append(on_commit)
        opened, writer = session.opened, session.writer
        served = _served(opened, writer, gateway, rules)
        sessions_log = await stack.enter_async_context(OpenSessionsLog.open(directory))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        player = SessionPlayer(
            tasks, writer, RunSink(writer, session.live), sessions_log, plan.request.retries.infrastructure
        )
        service = HubService(opened, served, gateway, directory, rules, player, writer)
        session.begin(None)
        await _recover(service, writer, directory)
        tasks.start_soon(service.expiry.run)
        try:
            yield service
        finally:
            with anyio.CancelScope(shield=True):
                if not await service.stop(STOP_SECONDS):
                    give_up()
            tasks.cancel_scope.cancel()


def _served(opened: OpenPlan, writer: RunWriter, gateway: Gateway, rules: ServiceRules) -> dict[str, Served]:
    request = opened.plan.request
    served: dict[str, Served] = {}
    for environment, context in opened.contexts(writer.run_id):
        info = environment.host.info
        _check_seats(info, request)
        seconds = environment.limits.max_seconds
        if seconds is not None and seconds > rules.ttl_seconds:
            raise ConfigError(
                f"max_seconds = {seconds:g} of {info.name} is past the TTL of {rules.ttl_seconds:g} s, which ends an "
                "episode unscored; raise it with --ttl"
            )
        writer.add_tools(info.tools_digest, info.tools)
        task_picker = TaskPicker(environment, opened.plan.seed, request.limit, request.seed)
        others = (split for split in info.splits if split != environment.split)
        split = rules.practice_split or next(others, environment.split)
        practice = TaskPicker(environment, practice_seed(opened.plan.seed), request.limit, None, split)
        context = replace(context, gateway=gateway, deadlines=rules.deadlines(context.deadlines))
        served[info.name] = Served(environment, context, task_picker, practice)
    return served


def _check_seats(info: EnvironmentInfo, request: RunRequest) -> None:
    """Refuse environments whose seats cannot be offered to outside agents.

    Raises:
        ConfigError: every seat has a player, or the seats take turns and the server has no tool to wait for them.
    """
    if all(seat in request.seats for seat in info.seats):
        raise ConfigError(
            f"every seat of {info.name} has a player ({', '.join(info.seats)}), and none is left for an agent outside; "
            "leave one out, or play them all with `hub run`"
        )
    can_wait = any(tool.name == LISTEN for tool in info.tools)
    if info.takes_turns and len(info.seats) > 1 and not can_wait:
        raise ConfigError(
            f"the seats of {info.name} take turns, and its server offers no tool {LISTEN!r} to wait for them; a run "
            "gives each to its agent when its turn comes: `hub run --seat SEAT=@external`"
        )


async def _recover(service: HubService, writer: RunWriter, directory: Path) -> None:
    """Record episodes that were in flight when the hub was killed, and restore the idempotency keys and sample
    numbers.
    """
    for entry in await anyio.to_thread.run_sync(lambda: list(read_sessions_log(directory))):
        service.remember(entry)
        if entry.attempt >= writer.attempts(entry.rollout_id):
            await writer.add(entry.lost(writer.run_id))
    await writer.flush()
