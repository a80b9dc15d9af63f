"""Opening a service: environments, models, a gateway, and the run that keeps what is played."""

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
from rollouthub.errors import ConfigError, first_error
from rollouthub.gateway.gateway import Gateway, open_gateway
from rollouthub.gateway.sessions.external_agent import VISITOR, Absent
from rollouthub.gateway.sessions.open_sessions_log import OpenSessionsLog, read_journal
from rollouthub.gateway.sessions.service import HubService, Served, practice_seed
from rollouthub.gateway.sessions.service_rules import GatewayPlace, ServiceRules
from rollouthub.gateway.sessions.session_player import SessionPlayer
from rollouthub.gateway.sessions.task_picker import TaskPicker
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter

STOP_SECONDS = 6.0
"""Closing every open episode may take this long; then they are recorded as they are, and left."""
WILDCARDS = ("0.0.0.0", "::")
_RULES, _PLACE = ServiceRules(), GatewayPlace()


def visitors_plan(request: RunRequest) -> Plan:
    """A plan of environments and models, whose agents come from outside.

    Raises:
        UsageError: a name nobody registered, a setting that does not hold.
    """
    request = request.model_copy(update={"agent": None, "agent_set": {}})
    return replace(make_plan(request), agent=Absent(), agent_name=VISITOR)


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
    """Open a service, without a control plane: for who serves, and for who plays one episode.

    On the way out every open episode is ended, unscored; `give_up` is called where that takes too long, and `on_commit`
    hears of durable records. Example:

        async with open_service(visitors_plan(RunRequest(environments=("arithmetic",))), Path("runs/one"), keys) as hub:
            visit = await hub.open(EpisodeRequest())
            ...  # an agent plays at visit.address
            rollout = await visit.verify()

    Raises:
        UsageError: the plan does not hold, the directory cannot be used, an address cannot be had.
        StoreError: the store failed; what it had committed stays.
    """
    if place.host in WILDCARDS and place.public_url is None:
        raise ConfigError(f"agents cannot reach {place.host}: say how they do, with --public-url http://HOST:PORT")
    try:
        async with AsyncExitStack() as stack:
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
            journal = await stack.enter_async_context(OpenSessionsLog.open(directory))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            player = SessionPlayer(
                tasks, writer, RunSink(writer, session.live), journal, plan.request.retries.infrastructure
            )
            service = HubService(opened, served, gateway, directory, rules, player, writer)
            session.begin(None)
            await _recover(service, writer, directory)
            tasks.start_soon(service.reaper.run)
            try:
                yield service
            finally:
                with anyio.CancelScope(shield=True):
                    if not await service.stop(STOP_SECONDS):
                        give_up()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def _served(opened: OpenPlan, writer: RunWriter, gateway: Gateway, rules: ServiceRules) -> dict[str, Served]:
    request = opened.plan.request
    served: dict[str, Served] = {}
    for environment, cast in opened.casts(writer.run_id):
        info = environment.host.info
        seconds = environment.limits.max_seconds
        if seconds is not None and seconds > rules.ttl_seconds:
            raise ConfigError(
                f"max_seconds = {seconds:g} of {info.name} is past the TTL of {rules.ttl_seconds:g} s, which ends an "
                "episode unscored; raise it with --ttl"
            )
        writer.add_tools(info.tools_digest, info.tools)
        dealer = TaskPicker(environment, opened.plan.seed, request.limit, request.seed)
        others = (split for split in info.splits if split != environment.split)
        split = rules.practice_split or next(others, environment.split)
        practice = TaskPicker(environment, practice_seed(opened.plan.seed), request.limit, None, split)
        cast = replace(cast, gateway=gateway, deadlines=rules.deadlines(cast.deadlines))
        served[info.name] = Served(environment, cast, dealer, practice)
    return served


async def _recover(service: HubService, writer: RunWriter, directory: Path) -> None:
    """Record what was in flight when the hub was killed, and know what it had opened."""
    for entry in await anyio.to_thread.run_sync(lambda: list(read_journal(directory))):
        service.remember(entry)
        if entry.attempt >= writer.attempts(entry.rollout_id):
            await writer.add(entry.lost(writer.run_id))
    await writer.flush()
