"""Resuming a run: checks and records changed settings, and restores what was played and spent."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio.to_thread

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.run_limits import Used
from rollouthub.engine.sample import Sample
from rollouthub.engine.settings_changes import all_changes, changed_settings, refuse_changes, refuse_others
from rollouthub.errors import RunDirectoryError
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run

MOST_NAMED = 5


def accept_changes(directory: Path, writer: RunWriter, opened: OpenPlan) -> None:
    """Accept the settings with which a run is resumed, record what changed, and count its earlier cost towards budgets.

    Raises:
        RunDirectoryError: a change would make new rollouts incomparable with the stored ones.
    """
    resolved = opened.resolved
    refuse_others(directory, writer.stored_resolved, resolved)
    refuse_changes(directory, changed_settings(writer.stored_resolved, resolved))
    writer.set_resolved(resolved, all_changes(writer.latest_resolved, resolved))
    _count_spent(directory, writer, opened)


async def count_planned(directory: Path, writer: RunWriter, opened: OpenPlan) -> int:
    """Number of rollouts of a resumed run: those planned now, and stored ones that are not in the plan.

    Raises:
        RunDirectoryError: a task that was played has changed, or a sample would join a group that has its verdict.
    """
    played = {
        **{rollout.group_id: rollout.task.digest for rollout in writer.waiting_members.values()},
        **await anyio.to_thread.run_sync(_task_digests, directory),
    }
    planned, changed = writer.kept_count, dict[str, None]()
    async for _, sample in opened.items(writer.run_id):
        _refuse_late_samples(writer, sample)
        planned += not writer.is_kept(sample.rollout_id)
        if played.get(sample.group_id, sample.task_ref.digest) != sample.task_ref.digest:
            changed[f"{sample.context.environment.name} {sample.task_ref.id!r}"] = None
    if changed:
        named = ", ".join(list(changed)[:MOST_NAMED]) + (" …" if len(changed) > MOST_NAMED else "")
        raise RunDirectoryError(
            f"{directory} has rollouts of {len(changed)} tasks that are not what they were, so their samples would not "
            f"compare: {named}. Put back the data they were made from, or start a new run in another directory (-o)."
        )
    return planned


def _refuse_late_samples(writer: RunWriter, sample: Sample) -> None:
    """Refuse to add a sample to a group that already has its verdict.

    Raises:
        RunDirectoryError: the sample was not stored when the group was scored.
    """
    if writer.is_judged(sample.group_id) and not writer.is_kept(sample.rollout_id):
        raise RunDirectoryError(
            f"task {sample.task_ref.id!r} of {sample.context.environment.name} has the verdict on its group, and "
            f"sample {sample.index} cannot join it: resume with as many samples as before (--repeats), or start a new "
            "run (-o)"
        )


def used_so_far(directory: Path, waiting: Iterable[Rollout] = ()) -> Used:
    """The cost and tokens of a run before it is resumed, of all its models.

    `waiting` are the rollouts that wait for their group's verdict: the store does not count them yet.
    """
    with open_run(directory) as reader:
        totals, asked = reader.totals(), reader.role_usage().values()
    tokens = totals.prompt_tokens + totals.output_tokens
    used = Used(totals.cost or 0.0, tokens + sum(usage.prompt_tokens + usage.output_tokens for usage in asked))
    for rollout in waiting:
        used.add(rollout)
    return used


def is_complete(directory: Path, planned: int) -> bool:
    """Whether every planned rollout is stored, and not as cancelled."""
    with open_run(directory) as reader:
        outcomes = reader.outcomes()
    return sum(count for outcome, count in outcomes.items() if outcome.kind != "cancelled") >= planned


def _task_digests(directory: Path) -> Mapping[str, str]:
    with open_run(directory) as reader:
        return reader.task_digests()


def _count_spent(directory: Path, writer: RunWriter, opened: OpenPlan) -> None:
    """Count the cost before the run was resumed towards its models' budgets, which are per run."""
    models = (opened.plan.model, *opened.plan.request.roles.values())
    if any(model is not None and model.budget is not None for model in models):
        with open_run(directory) as reader:
            opened.count_spent(_with_waiting(reader.spent(), writer.waiting_members.values()))


def _with_waiting(spent: Mapping[str, float], waiting: Iterable[Rollout]) -> dict[str, float]:
    """US dollars by role, including the rollouts that wait for their group's verdict."""
    total = dict(spent)
    for rollout in waiting:
        total[""] = total.get("", 0.0) + sum(turn.cost or 0.0 for turn in rollout.turns)
        for call in (*rollout.role_calls, *(() if rollout.score is None else rollout.score.judge_calls)):
            total[call.role] = total.get(call.role, 0.0) + (call.cost or 0.0)
    return total
