"""What `hub score RUN` does: writes a new run with the same rollouts and new scores, and prints what changed."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.scoring.rescore import Rescorer, RescoreSettings
from rollouthub.analysis.scoring.score_comparison import ScoreComparison, compare
from rollouthub.cli.console import remarks, results, warn
from rollouthub.cli.find_run import find_run
from rollouthub.cli.score.action import ScoreOrder, open_scorer, require_transcripts
from rollouthub.cli.score.score_view import ScoreView
from rollouthub.cli.signals import INTERRUPTED, Interruptible
from rollouthub.engine.foreign_run import refuse_named_code, refuse_named_files, refuse_named_servers
from rollouthub.engine.run_request import build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.models.batch_run import BATCHES, BatchRun
from rollouthub.models.openai.batch_journal import batch_facts
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.installed import find_installation
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.plugins.lock import write_lock
from rollouthub.protocols import EnvironmentHost
from rollouthub.rollout import Rollout
from rollouthub.statistics import RunningMeans
from rollouthub.statistics.amounts import number, share
from rollouthub.store import RunReader, open_run
from rollouthub.text import plain_name


def rescore_run(order: ScoreOrder) -> int:
    """Rescore a run's rollouts into a new run; returns the exit code."""
    for name, value in {
        "--split": order.options.split,
        "--limit": order.options.limit,
        "--answer-field": order.options.answer_field,
    }.items():
        if value is not None:
            raise ConfigError(f"{name} is for files; a run's rollouts say themselves what they answer")
    source = find_run(order.source, order.options.root)
    directory = Path(order.options.output) if order.options.output else _beside(source, order.options.root)
    if directory.exists() and directory.resolve() == source.resolve():
        raise ConfigError(f"{directory} is the run itself, which stays as it is; name another directory with -o")
    started = time.perf_counter()
    with open_run(source) as reader:
        rescoring = _Rescoring(order, reader, directory)
        rescoring.run()
        if not (directory / "run.db").exists():
            return INTERRUPTED
        with open_run(directory) as new:
            comparison = compare(reader, new)
    seconds = time.perf_counter() - started
    if order.options.as_json:
        facts = {"run": str(directory), **comparison.as_json(), "changed_tasks": rescoring.changed_tasks}
        facts |= batch_facts(directory / BATCHES)
        sys.stdout.write(json.dumps({**facts, "seconds": round(seconds, 4)}) + os.linesep)
    elif not order.options.quiet:
        _print(results(), comparison, rescoring, directory, seconds)
    elif unscored := comparison.after.finished - comparison.after.scored:
        warn(f"{unscored:,} of {comparison.after.finished:,} rollouts have no score; hub show {directory}")
    if rescoring.is_interrupted:
        return INTERRUPTED
    return 0 if comparison.after.scored == comparison.after.finished and not rescoring.is_put_off else 1


def _beside(source: Path, root: Path) -> Path:
    """Where the new run is by default: beside the old one; among the runs if that is another tool's."""
    with open_run(source) as reader:
        is_foreign = reader.info.read_from is not None
    name = f"{source.resolve().name}-rescored"
    return root / name if is_foreign else source.with_name(name)


class _Rescoring:
    """The asynchronous part of rescoring a run."""

    def __init__(self, order: ScoreOrder, reader: RunReader, directory: Path) -> None:
        self._order, self._reader, self._directory = order, reader, directory
        self._means = RunningMeans()
        self._view = ScoreView(remarks(), order.source, self._means, is_quiet=order.options.quiet)
        self._interruptible = Interruptible(self._stop, self._view.note)
        self._rescorer: Rescorer | None = None
        self._halt = StopSignal()
        self.is_same_verifier = False

    @property
    def is_interrupted(self) -> bool:
        """Whether rescoring was interrupted."""
        return self._interruptible.is_interrupted

    @property
    def is_put_off(self) -> bool:
        """Whether rollouts are left that wait for batches."""
        return self._halt.is_put_off

    @property
    def changed_tasks(self) -> int:
        """Number of rollouts whose task has changed since they were played."""
        return 0 if self._rescorer is None else self._rescorer.changed_tasks

    def run(self) -> None:
        """Rescore until done or interrupted."""
        with self._view:
            run_async(self._interruptible.run, self._rescore, self._view.refresh)

    def _stop(self) -> None:
        self._halt.set()
        if self._rescorer is not None:
            self._rescorer.stop()

    async def _rescore(self) -> None:
        order, resolved = self._order, self._reader.info.resolved
        request = cast(dict[str, Any], resolved.get("request") or {})
        targets = tuple(str(target) for target in request.get("environments") or ())
        played = _played(resolved)
        if (read_from := self._reader.info.read_from) is not None:
            played = tuple(dict.fromkeys(group.environment for group in self._reader.group_counts()))
            if order.options.environment is None:
                raise ConfigError(
                    f"the run was read from {plain_name(read_from.format)} files, which name none of the hub's "
                    "environments; say which one has its tasks and scores them: hub score RUN --env ENV"
                )
        if order.options.environment is not None:
            if len(played) > 1:
                raise ConfigError(
                    f"the run has several environments ({', '.join(played)}), and --env names one; leave it out"
                )
            targets = (order.options.environment,)
        else:
            instead = "`hub score RUN --env ENV`"
            refuse_named_code(targets, self._reader.directory, instead)
            refuse_named_files(targets, request.get("set") or {}, self._reader.directory, instead)
        stored = _stored_settings(request.get("set") or {}, played, order)
        named = build_request({"roles": request.get("roles", {})}, str(self._reader.directory)).roles
        given = order.given.get("roles", {})
        kept = [model for role, model in named.items() if role not in given]
        refuse_named_servers(kept, self._reader.directory, "name the model yourself with --role ROLE=MODEL")
        # Whether a model's calls wait for a batch is this command's to say.
        roles: dict[str, Any] = {
            **{role: model.model_copy(update={"batch": False}) for role, model in named.items()},
            **given,
        }
        seed = order.options.seed if order.options.seed is not None else int(request.get("seed") or 0)
        more = {"set": {**stored, **order.settings}, "roles": roles, "seed": seed}
        batches = order.batches(self._directory / BATCHES, self._view.note, self._halt)
        async with open_scorer(order, targets, batches, **more) as opened:
            hosts = [environment.host for environment in opened.environments]
            for host in hosts:
                _require_again(self._reader, host)
            settings = RescoreSettings(seed, order.concurrency, order.options.skip_bad)
            by_name = dict(zip(played, opened.environments, strict=True))
            self.is_same_verifier = _versions(resolved) == {
                name: environment.host.info.digest for name, environment in by_name.items()
            }
            await self._run(Rescorer(self._reader, by_name, settings, self._origin(hosts)), batches)
            write_lock(opened.lock, self._directory / LOCK, 0o600)

    async def _run(self, rescorer: Rescorer, batches: BatchRun) -> None:
        """Rescore until done, or until nothing is left but what waits for batches that are not waited for."""
        self._rescorer = rescorer
        batches.in_flight = lambda: rescorer.in_flight
        if self._halt.is_set:
            rescorer.stop()
        with anyio.CancelScope() as scoring:
            self._halt.on_put_off(scoring.cancel)
            await rescorer.run(
                self._directory, resume=self._order.options.resume, begin=self._view.begin, on_commit=self._committed
            )

    def _origin(self, hosts: Sequence[EnvironmentHost]) -> dict[str, Any]:
        """What the new run records of its origin: the old run, and the environments that scored."""
        return {
            "from": str(self._reader.directory),
            "run_id": self._reader.info.run_id,
            "environments": [
                host.info.model_dump(mode="json", include={"name", "version", "digest", "config"}) for host in hosts
            ],
        }

    def _committed(self, rollouts: Sequence[Rollout]) -> None:
        for rollout in rollouts:
            score = rollout.score
            self._means.add(rollout.outcome, score and score.reward, score and score.passed)


def _require_again(reader: RunReader, host: EnvironmentHost) -> None:
    """Refuse an environment that cannot score a run's rollouts again.

    Raises:
        ConfigError: it needs the world that an episode leaves, or the run's groups have no verdict yet.
    """
    info = host.info
    if not info.scores_groups:
        if not info.scores_states:
            require_transcripts(host)
        return
    if waiting := reader.waiting():
        raise ConfigError(
            f"{waiting:,} rollouts of {reader.directory} wait for their group's verdict; "
            "finish the run first, with hub run --resume"
        )
    if info.scores_samples and not (info.scores_transcripts or info.scores_states):
        raise ConfigError(
            f"environment {info.name!r} verifies the world an episode leaves behind before it scores the group, and a "
            "run has no such world (its class says `scores_transcripts = True` where text is all, or "
            "`scores_states = True` where its state is kept)"
        )


def _played(resolved: Any) -> tuple[str, ...]:
    """Names of the run's environments, as its rollouts record them."""
    return tuple(str(environment["name"]) for environment in resolved.get("environments") or ())


def _versions(resolved: Any) -> dict[str, str]:
    latest: Any = (resolved.get("rescored") or resolved).get("environments") or ()
    return {str(item["name"]): str(item["digest"]) for item in latest}


def _stored_settings(stored: dict[str, Any], played: tuple[str, ...], order: ScoreOrder) -> dict[str, Any]:
    """The run's environment settings, without those given now; for another environment, only those it knows."""
    kept = {key: value for key, value in stored.items() if key.partition(".")[2] not in order.settings}
    if order.options.environment is None or not played:
        return kept
    known = _known_settings(order)
    bare = {key.removeprefix(f"{played[0]}."): value for key, value in kept.items()}
    return {key: value for key, value in bare.items() if known is None or key in known}


def _known_settings(order: ScoreOrder) -> set[str] | None:
    """The names of the environment's settings; None if its code must not be loaded in this process."""
    assert order.options.environment is not None
    if find_installation(order.options.environment) is not None:
        return None
    plugin = plugins(ENVIRONMENTS).get(order.options.environment)
    if plugin is not None and not plugin.is_shipped and "in_process" not in order.given:
        return None
    return set(find_environment(order.options.environment).environment.config_type.model_fields)


def _print(
    console: Console, comparison: ScoreComparison, rescoring: _Rescoring, directory: Path, seconds: float
) -> None:
    before, after = comparison.before, comparison.after
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in ("scored", "coverage", "mean reward", "pass rate"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, means in (("before", before), ("after", after)):
        table.add_row(
            name,
            f"{means.scored:,}/{means.finished:,}",
            share(means.coverage),
            number(means.mean_reward),
            share(means.pass_rate),
        )
    console.print(table)
    parts = {
        "raised": comparison.raised,
        "lowered": comparison.lowered,
        "newly scored": comparison.newly_scored,
        "newly unscored": comparison.newly_unscored,
    }
    said = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    console.print(f"\n{comparison.changed:,} of {before.finished:,} verdicts changed" + (f": {said}" if said else ""))
    for change in comparison.examples:
        line = f"  {change.rollout_id}  {change.task_id}: {_verdict(change.before)} → {_verdict(change.after)}"
        console.print(Text(line, style="dim"))
    if rescoring.changed_tasks:
        console.print(f"{rescoring.changed_tasks:,} rollouts are of tasks that have changed since", style="yellow")
    if rescoring.is_same_verifier:
        console.print("The verifier is the one that scored the run before.", style="dim")
    console.print(f"{seconds:.1f} s")
    console.print(Text(str(directory), style="bold"))


def _verdict(verdict: float | str) -> str:
    return verdict if isinstance(verdict, str) else number(verdict)
