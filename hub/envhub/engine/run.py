"""One run from plan to committed rollouts."""

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, cast

from envhub.engine.item import Item
from envhub.engine.plan import Plan, PlannedEnvironment, changed_settings
from envhub.engine.play import Attempt
from envhub.engine.pool import LocalPool, StopSignal
from envhub.errors import HubError, RunDirectoryError
from envhub.models.credentials import Credentials
from envhub.models.preflight import preflight
from envhub.models.resolve import open_model
from envhub.protocols import Model
from envhub.rollout import Rollout
from envhub.store import RunWriter, open_writer
from envhub.task import BadRow


class Observer(Protocol):
    """Who watches a run from inside its process."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """The run is about to play; `done` of the planned rollouts are already there."""
        ...

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """These records are durable."""
        ...


class _Sink:
    """Hands records to the run's writer, and shows live states."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer

    def attempts(self, rollout_id: str) -> int:
        return self._writer.attempts(rollout_id)

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        await self._writer.add(rollout, media)

    def track(self, attempt: Attempt) -> None:
        self._writer.set_live(attempt.item.rollout_id, attempt.where)


async def collect(
    plan: Plan,
    directory: Path,
    *,
    given: str,
    resume: bool,
    credentials: Credentials,
    observer: Observer,
    stop: StopSignal,
) -> None:
    """Play what is planned and not yet done; every finished rollout is committed, whatever happens next.

    Raises:
        UsageError: a bad row, an unreachable model, a run directory that cannot be used.
        StoreError: the store failed in mid-run; what it had committed stays.
    """
    planned, bad_rows = plan.count()
    try:
        async with _model(plan, credentials) as model:
            resolved = plan.resolved
            async with open_writer(
                directory, resolved=resolved, given=given, resume=resume, on_commit=observer.committed
            ) as writer:
                if writer.resumed:
                    _refuse_changes(directory, changed_settings(writer.stored_resolved, resolved))
                    writer.set_resolved(resolved)
                    # A resumed run may hold samples that are not asked for now; what is there counts.
                    new = sum(not writer.is_kept(item.rollout_id) for _, item in _items(plan, writer.run_id, None))
                    planned = writer.kept_count + new
                writer.set_plan(planned, bad_rows)
                items = _remaining(plan, writer, model)
                observer.started(writer.run_id, planned, writer.done_count, bad_rows)
                pool = LocalPool(plan.request.concurrency, plan.request.retries, stop)
                try:
                    await pool.collect(items, _Sink(writer))
                finally:
                    items.close()
                if stop.is_set:
                    writer.set_status("interrupted")
    except BaseExceptionGroup as group:
        raise first_error(group) from group


@asynccontextmanager
async def _model(plan: Plan, credentials: Credentials) -> AsyncGenerator[Model | None]:
    if plan.model is None:
        yield None
        return
    async with open_model(plan.model, credentials) as model:
        await preflight(model)
        yield model


def _remaining(plan: Plan, writer: RunWriter, model: Model | None) -> Generator[Item]:
    """What is planned and not done, group by group."""
    for planned, item in _items(plan, writer.run_id, model):
        writer.add_tools(planned.host.info.tools_digest, planned.host.info.tools)
        if not writer.is_done(item.rollout_id):
            yield item


def _items(plan: Plan, run_id: str, model: Model | None) -> Iterator[tuple[PlannedEnvironment, Item]]:
    for planned, actors in plan.casts(run_id, model):
        for card in plan.tasks(planned):
            if not isinstance(card, BadRow):
                for item in plan.items(actors, card):
                    yield planned, item


def _refuse_changes(directory: Path, changes: list[str]) -> None:
    if changes:
        listing = "\n  ".join(changes)
        raise RunDirectoryError(
            f"{directory} was made with other settings, so its rollouts would not compare:\n  {listing}\n"
            "Resume with the settings it was made with, or start a new run in another directory (-o)."
        )


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error to show of a group: a bug before a hub error, a hub error before a cancellation."""
    return min(_leaves(group), key=_rank)


def _rank(error: BaseException) -> int:
    if isinstance(error, HubError):
        return 1
    return 0 if isinstance(error, Exception) else 2


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast(BaseExceptionGroup[BaseException], error))
        else:
            yield error
