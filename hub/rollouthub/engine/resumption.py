"""Taking a run up again: what changed is judged and recorded, what was played and spent is remembered."""

from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.run_limits import Used
from rollouthub.engine.settings_changes import all_changes, changed_settings, refuse_changes, refuse_others
from rollouthub.errors import RunDirectoryError
from rollouthub.store import RunWriter, open_run

MOST_NAMED = 5


def accept_changes(directory: Path, writer: RunWriter, opened: OpenPlan) -> None:
    """Go on with a run as it is asked for now, and keep what changed; what it spent counts towards budgets.

    Raises:
        RunDirectoryError: rollouts made now would not compare with those there are.
    """
    resolved = opened.resolved
    refuse_others(directory, writer.stored_resolved, resolved)
    refuse_changes(directory, changed_settings(writer.stored_resolved, resolved))
    writer.set_resolved(resolved, all_changes(writer.latest_resolved, resolved))
    _count_spent(directory, opened)


async def count_planned(directory: Path, writer: RunWriter, opened: OpenPlan) -> int:
    """How many rollouts a resumed run is to have: those asked for now, and others that are there.

    Raises:
        RunDirectoryError: tasks that were played are no longer what they were.
    """
    played = await anyio.to_thread.run_sync(_task_digests, directory)
    planned, changed = writer.kept_count, dict[str, None]()
    async for _, item in opened.items(writer.run_id):
        planned += not writer.is_kept(item.rollout_id)
        if played.get(item.group_id, item.task_ref.digest) != item.task_ref.digest:
            changed[f"{item.cast.environment.name} {item.task_ref.id!r}"] = None
    if changed:
        named = ", ".join(list(changed)[:MOST_NAMED]) + (" …" if len(changed) > MOST_NAMED else "")
        raise RunDirectoryError(
            f"{directory} has rollouts of {len(changed)} tasks that are not what they were, so their samples would not "
            f"compare: {named}. Put back the data they were made from, or start a new run in another directory (-o)."
        )
    return planned


def used_so_far(directory: Path) -> Used:
    """What a run has used before it is taken up again, all its models together."""
    with open_run(directory) as reader:
        totals, asked = reader.totals(), reader.role_usage().values()
    tokens = totals.prompt_tokens + totals.output_tokens
    return Used(totals.cost or 0.0, tokens + sum(usage.prompt_tokens + usage.output_tokens for usage in asked))


def is_complete(directory: Path, planned: int) -> bool:
    """Whether every planned rollout is there, and none was cut short."""
    with open_run(directory) as reader:
        outcomes = reader.outcomes()
    return sum(count for outcome, count in outcomes.items() if outcome.kind != "cancelled") >= planned


def _task_digests(directory: Path) -> Mapping[str, str]:
    with open_run(directory) as reader:
        return reader.task_digests()


def _count_spent(directory: Path, opened: OpenPlan) -> None:
    """A budget is the run's, however often it is resumed."""
    models = (opened.plan.model, *opened.plan.request.roles.values())
    if any(model is not None and model.budget is not None for model in models):
        with open_run(directory) as reader:
            opened.count_spent(reader.spent())
