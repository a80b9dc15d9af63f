"""The worker process: it opens its own models and environments, and plays hundreds of episodes as coroutines."""

import contextlib
import logging
import os
import time
from collections import deque
from importlib.metadata import version
from typing import TYPE_CHECKING

import anyio
import anyio.abc
from pydantic_core import PydanticSerializationError

from rollouthub.cluster.cluster_messages import (
    AttemptCommand,
    AttemptState,
    Ended,
    Hello,
    Note,
    WorkerReport,
    WorkOrder,
    decode_order,
    encode,
)
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.errors import EpisodeError, HubError, TaskError, UsageError, describe, first_error
from rollouthub.event_loop import quiet_collector, steady_collector
from rollouthub.generation import Model
from rollouthub.limits import Limits
from rollouthub.models.credentials import Credentials
from rollouthub.models.key_protection import hide_secrets
from rollouthub.models.preflight import BudgetedModel, SharedModel
from rollouthub.processes import set_import_defaults
from rollouthub.protocols import TaskCard
from rollouthub.rollout import Rollout, TaskRef
from rollouthub.store.record_rows import mended
from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.memory import resident_bytes

if TYPE_CHECKING:
    from rollouthub.telemetry.metrics.loop_lag import LoopLag

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
"""Most seconds that a finished record waits for further ones before the report is sent."""
FULL_REPORT = 64
"""Number of finished records at which the report is sent at once."""
IDLE_SECONDS = 1.0
"""Most seconds between reports without news; each report also shows that the worker is alive."""
STATES_SECONDS = 0.5
MOST_WAITING_BYTES = 64 * 2**20
"""Bytes of finished records not yet sent at which no new episode begins."""
MOST_NOTES = 200
MOST_TRACE = 8000
"""Most characters of a traceback in a log note; its end is kept."""


class Worker:
    """The class of the Ray actor. `run` lasts as long as the actor; `exchange` is called again and again meanwhile."""

    def __init__(
        self,
        request: bytes,
        run_id: str,
        credentials: dict[str, str],
        folder: str | None,
        variables: dict[str, str],
    ) -> None:
        """`folder`: the driver's working directory, for relative paths; `variables`: those that the cluster lacks."""
        os.environ.update(variables)
        hide_secrets()
        self._request, self._run_id, self._folder = request, run_id, folder
        self._credentials = Credentials(credentials)
        self._hello = anyio.Event()
        self._problem: tuple[str, bool] | None = None
        self._opened: OpenPlan | None = None
        self._contexts: dict[str, SampleContext] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._over = anyio.Event()
        self._queue: deque[WorkOrder] = deque()
        self._concurrency = 1
        self._at_play = 0
        self._sharing = 1
        self._attempts: dict[str, Attempt] = {}
        self._coming: set[str] = set()
        """Ids of rollouts whose attempt has not begun."""
        self._early: dict[str, list[AttemptCommand]] = {}
        """Commands for attempts that have not begun, by rollout id."""
        self._is_cut_short = False
        self._moved: dict[str, Attempt] = {}
        self._states_at = 0.0
        self._ended: list[Ended] = []
        self._waiting_bytes = 0
        self._news = anyio.Event()
        self._notes = _Notes()
        self._lag: LoopLag | None = None

    async def run(self) -> None:
        """Open what the plan needs, and play until `leave` is called."""
        set_import_defaults()  # this process is Ray's own
        logging.getLogger("rollouthub").addHandler(self._notes)
        try:
            with quiet_collector(), steady_collector():
                await self._run()
        except BaseExceptionGroup as group:
            self._refuse(first_error(group))
        except Exception as error:
            self._refuse(error)
        finally:
            logging.getLogger("rollouthub").removeHandler(self._notes)
        if self._over.is_set():
            import ray.actor  # this process is Ray's own

            ray.actor.exit_actor()  # also where the cluster has no head any more that could end it

    def _refuse(self, error: BaseException) -> None:
        if not isinstance(error, HubError):
            logger.exception("a worker broke", exc_info=error)
        said = str(error) if isinstance(error, HubError) else f"{describe(error)}"
        said = self._credentials.redact(said)
        self._problem = said, isinstance(error, UsageError)
        self._hello.set()

    async def _run(self) -> None:
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)
        plan = make_plan(RunRequest.model_validate_json(self._request))
        async with open_plan(plan, self._credentials) as self._opened:
            self._contexts = {context.environment.name: context for _, context in self._opened.contexts(self._run_id)}
            async with anyio.create_task_group() as self._tasks:
                self._hello.set()
                await self._over.wait()
                self._tasks.cancel_scope.cancel()

    async def hello(self) -> bytes:
        """Wait until this worker is ready or has failed, and describe it."""
        await self._hello.wait()
        import ray  # this process is Ray's own

        context = ray.get_runtime_context()
        problem, is_usage = self._problem or (None, False)
        return encode(
            Hello(
                pid=os.getpid(),
                node_id=context.get_node_id(),
                address=str(ray.util.get_node_ip_address()),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                hub_version=version("rollouthub"),
                environments={name: context.environment.identity for name, context in self._contexts.items()},
                cpu_seconds=cpu_seconds(),
                problem=problem,
                is_usage=is_usage,
            )
        )

    async def leave(self) -> None:
        """Cancel attempts in flight and close everything."""
        self._over.set()

    async def exchange(self, order: bytes) -> bytes:
        """Carry out an order, and report what happened since the last report, waiting briefly for news."""
        if self._problem is not None:
            return encode(WorkerReport(problem=self._problem[0], notes=self._notes.taken()))
        given = decode_order(order)
        self._concurrency = given.concurrency
        self._queue.extend(given.works)
        self._coming.update(work.rollout_id for work in given.works)
        if given.sharing != self._sharing:
            self._sharing = given.sharing
            for model in self._models().values():
                if isinstance(model, SharedModel):
                    model.share(given.sharing)
        for role, dollars in given.allowances.items():
            self._budgeted()[role].lease(dollars, is_last=role in given.last)
        for change in given.changes:
            self._change(change)
        returned: list[tuple[str, int]] = []
        if given.give_back:
            returned = [work.key for work in self._queue]
            self._queue.clear()
            for rollout_id, _ in returned:
                self._coming.discard(rollout_id)
                self._early.pop(rollout_id, None)
        if given.cancel:
            self._is_cut_short = True
            for attempt in tuple(self._attempts.values()):
                attempt.cancel()
        self._start()
        if not returned:
            await self._gather()
        return encode(self._report(returned, self._look() if given.look else b""))

    async def nudge(self) -> None:
        """End the wait in `exchange`, so that the report is sent at once and the driver can give its next order."""
        self._news.set()

    async def _gather(self) -> None:
        if not self._ended:
            with anyio.move_on_after(IDLE_SECONDS):
                await self._news.wait()
        if len(self._ended) < FULL_REPORT and self._ended:
            with anyio.move_on_after(GATHER_SECONDS):
                while len(self._ended) < FULL_REPORT and self._at_play:
                    self._news = anyio.Event()
                    await self._news.wait()
        self._news = anyio.Event()

    def _look(self) -> bytes:
        """An encoded snapshot of this process's figures."""
        from rollouthub.telemetry.metrics.loop_lag import LoopLag
        from rollouthub.telemetry.metrics.process_figures import (
            encode as encode_snapshot,  # only where somebody wants to know
        )
        from rollouthub.telemetry.metrics.process_snapshot import take_snapshot

        assert self._tasks is not None
        if self._lag is None:
            self._lag = LoopLag()
            self._tasks.start_soon(self._lag.watch)
        return encode_snapshot(
            take_snapshot(
                f"worker-{os.getpid()}",
                models={role or "policy": model for role, model in self._models().items()},
                hosts=[context.host for context in self._contexts.values()],
                lag=self._lag.histogram,
            )
        )

    def _report(self, returned: list[tuple[str, int]], figures: bytes) -> WorkerReport:
        ended, self._ended, self._waiting_bytes = self._ended, [], 0
        now = time.monotonic()
        states: list[AttemptState] = []
        if self._moved and now >= self._states_at + STATES_SECONDS:
            states = [_state(attempt) for attempt in self._moved.values()]
            self._moved.clear()
            self._states_at = now
        self._start()
        return WorkerReport(
            ended=ended,
            states=states,
            returned=returned,
            notes=self._notes.taken(),
            spent={role: model.spent for role, model in self._budgeted().items()},
            cpu_seconds=cpu_seconds(),
            resident_bytes=resident_bytes(),
            figures=figures,
        )

    def _budgeted(self) -> dict[str, BudgetedModel]:
        """Models with a budget, by role; the policy's role is the empty string."""
        return {role: model for role, model in self._models().items() if isinstance(model, BudgetedModel)}

    def _models(self) -> dict[str, Model]:
        """All models by role; the policy's role is the empty string."""
        assert self._opened is not None, "a worker says hello before it is given orders"
        policy = {} if self._opened.model is None else {"": self._opened.model}
        return {**policy, **self._opened.roles}

    def _start(self) -> None:
        """Begin as many queued attempts as concurrency and unsent records allow."""
        assert self._tasks is not None, "a worker says hello before it is given orders"
        if self._problem is not None:
            return
        while self._queue and self._at_play < self._concurrency and self._waiting_bytes < MOST_WAITING_BYTES:
            self._at_play += 1
            self._tasks.start_soon(self._play, self._queue.popleft())

    async def _play(self, order: WorkOrder) -> None:
        """Play one attempt, and add its record to the next report."""
        attempt = await self._found(order)
        self._coming.discard(order.rollout_id)
        try:
            rollout = await self._played(attempt) if isinstance(attempt, Attempt) else attempt
        finally:
            self._at_play -= 1
            self._attempts.pop(order.rollout_id, None)
            self._moved.pop(order.rollout_id, None)
        media = dict(attempt.media) if isinstance(attempt, Attempt) else {}
        record = _as_json(rollout)
        self._waiting_bytes += len(record) + sum(map(len, media.values()))
        self._ended.append(Ended(order.rollout_id, order.attempt, record, media))
        self._news.set()
        self._start()

    async def _found(self, order: WorkOrder) -> Attempt | Rollout:
        """The attempt for the order's task; or a broken record, if this node lacks the task or has another version."""
        context = self._contexts[order.environment]
        assert self._opened is not None
        try:
            card = await context.host.find_task(order.split, order.task_id, self._opened.plan.seed)
            if card.digest != order.digest:
                raise TaskError(
                    f"task {order.task_id!r} of {order.environment} is another one here than where the run was "
                    f"started ({card.digest} for {order.digest}): install the same version and data on every node",
                    retryable=False,
                )
        except HubError as error:
            broken = error if isinstance(error, EpisodeError) else TaskError(str(error), retryable=False)
            return Attempt(_sample(order, context, None), order.attempt, order.queued, self._track).broken(broken)
        attempt = Attempt(_sample(order, context, card), order.attempt, order.queued, self._track)
        self._attempts[order.rollout_id] = attempt
        return attempt

    async def _played(self, attempt: Attempt) -> Rollout:
        early = self._early.pop(attempt.sample.rollout_id, ())
        if self._is_cut_short or any(change.what == "cancel" for change in early):
            return attempt.cancelled()
        for change in early:
            self._change(change)
        return await attempt.play()

    def _track(self, attempt: Attempt) -> None:
        self._moved[attempt.sample.rollout_id] = attempt

    def _change(self, change: AttemptCommand) -> None:
        """Apply a command to an attempt; keep it if the attempt has not begun, and ignore it if it has ended."""
        attempt = self._attempts.get(change.rollout_id)
        if attempt is None:
            if change.rollout_id in self._coming:
                self._early.setdefault(change.rollout_id, []).append(change)
            return
        match change.what:
            case "cancel":
                attempt.cancel()
            case "interrupt":
                attempt.interrupt()
            case "retune":
                attempt.retune(Limits.model_validate_json(change.limits))
            case "tell":
                attempt.intervene(change.text)


class _UnknownCard:
    """Placeholder for the card of a task that this node does not have; the record only needs the order's ids."""


def _sample(order: WorkOrder, context: SampleContext, card: TaskCard | None) -> Sample:
    source = None if card is None else card.public.source
    return Sample(
        context,
        _UnknownCard() if card is None else card,  # pyright: ignore[reportArgumentType]  # never played
        TaskRef(split=order.split, id=order.task_id, digest=order.digest, source=source),
        order.group_id,
        order.rollout_id,
        order.sample,
        order.seed,
        order.policy_seed,
    )


def _as_json(rollout: Rollout) -> bytes:
    try:
        return rollout.__pydantic_serializer__.to_json(rollout)
    except (PydanticSerializationError, UnicodeEncodeError):
        return mended(rollout).model_dump_json().encode()


def _state(attempt: Attempt) -> AttemptState:
    recorder = attempt.recorder
    return AttemptState(
        attempt.sample.rollout_id,
        attempt.number,
        attempt.state,
        len(recorder.turns),
        recorder.output_tokens,
        recorder.cost,
        recorder.model_seconds,
        recorder.tool_seconds,
    )


_TRACES = logging.Formatter()


class _Notes(logging.Handler):
    """A log handler that collects the latest warnings and errors for the driver's log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._notes: deque[Note] = deque(maxlen=MOST_NOTES)

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a log record, with the end of its traceback."""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + _TRACES.formatException(record.exc_info)[-MOST_TRACE:]
        self._notes.append(Note(record.levelno, record.name, text))

    def taken(self) -> list[Note]:
        """Return and clear the collected notes."""
        notes = list(self._notes)
        self._notes.clear()
        return notes
