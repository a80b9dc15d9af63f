"""What `hub compare` does: runs each model in a folder of its own with the engine of `hub run`, then compares."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollouthub.analysis.compare.compared_run import ComparedRun, read_compared
from rollouthub.analysis.compare.comparison import Comparison, compare_runs, labelled
from rollouthub.analysis.compare.task_changes import task_across
from rollouthub.cli.compare.compare_options import CompareOptions
from rollouthub.cli.compare.task_page import TaskPage
from rollouthub.cli.console import remarks
from rollouthub.cli.find_run import find_run
from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import INTERRUPTED, TerminalRun, request_of
from rollouthub.cli.run.run_progress import LiveView
from rollouthub.engine.directories import fresh_directory, model_folder
from rollouthub.engine.open_plan import open_plan
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.run_request import RunRequest, as_toml, build_request
from rollouthub.errors import ConfigError, HubError, RunDirectoryError
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_model
from rollouthub.protocols import REFERENCE_AGENT
from rollouthub.values import Frozen

FILE = "compare.json"
MOST_TASKS = 1_000_000
"""The most tasks of a split that are counted."""


class _Entry(Frozen):
    """One model of a comparison: its name, its servers, and the folder of its run."""

    model: str
    base_url: tuple[str, ...] = ()
    folder: str


class _Compare(Frozen):
    """The request of a comparison, stored as `compare.json` so that it can be resumed."""

    request: dict[str, Any]
    models: tuple[_Entry, ...]
    full_tasks: int | None = None


def read_runs(names: Sequence[str], root: Path, full_tasks: int | None) -> Comparison:
    """Compare existing runs; a comparison's folder names all runs in it.

    Raises:
        UsageError: there are no such runs, or they have no task in common.
    """
    if len(names) == 1 and (Path(names[0]) / FILE).is_file():
        return _compared(Path(names[0]), _read(Path(names[0])), full_tasks)
    if len(names) < 2:
        raise ConfigError("name two runs or more, or an environment and two models: hub compare ENV -m A -m B")
    return compare_runs([read_compared(find_run(name, root)) for name in names], full_tasks, in_detail=True)


def read_tasks(names: Sequence[str], root: Path, tasks: Sequence[str]) -> TaskPage:
    """Some tasks in existing runs; a comparison's folder names all runs in it.

    Raises:
        UsageError: there are no such runs, or none of them played one of the tasks.
    """
    if len(names) == 1 and (Path(names[0]) / FILE).is_file():
        runs = _played(Path(names[0]), _read(Path(names[0])))
    else:
        runs = [read_compared(find_run(name, root)) for name in names]
    if not runs:
        raise ConfigError("name the runs in which to look for the task: hub compare RUN RUN… --task TASK")
    runs = labelled(runs)
    found = [task for name in dict.fromkeys(tasks) for task in task_across(runs, name)]
    return TaskPage(tuple((run.label, run.info.directory) for run in runs), tuple(found))


def play_models(given: dict[str, Any], options: CompareOptions, output: Path | None) -> tuple[Comparison | None, int]:
    """Run each model on the same tasks; return the comparison (None if too little was played) and the exit code.

    Raises:
        UsageError: a setting does not hold, a model cannot be reached, a folder cannot be used.
    """
    if options.resume and output is None:
        raise ConfigError("--resume needs the comparison's folder: add -o DIR")
    credentials = load_credentials(os.environ, Path.cwd())
    if options.resume and output is not None and (output / FILE).is_file():
        if options.model or given:
            raise ConfigError(f"the comparison in {output} has its models, environments and settings; leave them out")
        asked, directory = _read(output), output
    else:
        asked = _asked(given, list(options.model), options.base_url, options.config)
        names = "+".join(Path(name).stem.replace("/", "_") for name in asked.request["environments"])
        directory = output or fresh_directory(f"compare-{names}")
    plans = [make_plan(_request(asked, entry)) for entry in asked.models]
    run_async(_check, plans, credentials)
    if asked.full_tasks is None:
        asked = asked.model_copy(update={"full_tasks": run_async(_count, plans[0], credentials)})
    if not options.resume and directory.exists() and any(directory.iterdir()):
        raise RunDirectoryError(f"{directory} is not empty; go on with what is there by --resume, or choose another -o")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE).write_text(asked.model_dump_json(indent=1))
    code = 0
    for number, (entry, plan) in enumerate(zip(asked.models, plans, strict=True), 1):
        title = f"{number}/{len(plans)} {entry.model}"
        code = max(code, _play(title, plan, directory / entry.folder, credentials, options.quiet))
        if code == INTERRUPTED:
            break
    if code == INTERRUPTED and not options.quiet:
        remarks().print(f"Go on with: hub compare --resume -o {directory}", style="yellow")
    try:
        comparison = _compared(directory, asked, options.project)
    except ConfigError:
        if code:
            return None, code  # too little was played to compare, and what ended it has been said
        raise
    unscored = any(standing.scored < standing.rollouts for standing in comparison.standings)
    return comparison, max(code, int(unscored))


def _asked(given: dict[str, Any], models: list[str], base_urls: Sequence[str], config: Path | None) -> _Compare:
    """Build the comparison's request from the command line.

    Raises:
        ConfigError: fewer than two models, a model given twice, or a --base-url for a model that is not compared.
    """
    if len(set(models)) < 2 or len(set(models)) < len(models):
        raise ConfigError("a comparison needs two models or more, each once: hub compare ENV -m A -m B")
    request = request_of(given, config, None, False)
    if not request.environments:
        raise ConfigError("name the environment to compare the models on: hub compare ENV -m A -m B")
    servers: dict[str, tuple[str, ...]] = dict.fromkeys(models, ())
    for text in base_urls:
        name, _, url = text.rpartition("=http") if "=http" in text else ("", "", "")
        if not name:
            for each in models:
                if each.startswith(("hosted_vllm/", "sglang/", "openai/")) and not any(
                    other.startswith(f"{each}=http") for other in base_urls
                ):
                    servers[each] += (text,)
        elif name in servers:
            servers[name] += (f"http{url}",)
        else:
            raise ConfigError(f"--base-url {text!r} is for no model here; known: {', '.join(models)}")
    base = request.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    entries = tuple(
        _Entry(model=name, base_url=servers[name], folder=model_folder(number, name))
        for number, name in enumerate(models, 1)
    )
    return _Compare(request=base, models=entries)


def _read(directory: Path) -> _Compare:
    try:
        return _Compare.model_validate_json((directory / FILE).read_text())
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{directory / FILE} cannot be read: {error}; start a new comparison") from None


def _request(asked: _Compare, entry: _Entry) -> RunRequest:
    return build_request({**asked.request, "model": entry.model, "base_url": list(entry.base_url)}, entry.model)


async def _check(plans: Sequence[Plan], credentials: Credentials) -> None:
    """Check that every model answers before the first run starts."""
    for plan in plans:
        assert plan.model is not None
        async with open_model(plan.model, credentials) as model:
            await preflight(model, sampling=plan.request.sampling)


async def _count(plan: Plan, credentials: Credentials) -> int | None:
    """Count the tasks of the whole split; None if they cannot be counted."""
    update: dict[str, Any] = {
        "model": None,
        "base_url": (),
        "agent": REFERENCE_AGENT,
        "agent_set": {},
        "limit": MOST_TASKS,
        "repeats": 1,
    }
    update |= {"skip_bad": True, "roles": {}, "fallbacks": (), "lane": None, "budget": None, "tasks": ()}
    update |= {"shuffle": False, "skip": 0, "sample": None, "seats": {}, "band": None, "chosen": {}, "weights": {}}
    try:
        async with open_plan(make_plan(plan.request.model_copy(update=update)), credentials) as opened:
            return (await opened.count())[0]
    except HubError:
        return None


def _play(title: str, plan: Plan, directory: Path, credentials: Credentials, is_quiet: bool) -> int:
    """Run or resume one model's run; an error is printed and becomes exit code 1, so that other models still run."""
    view = LiveView(remarks(), plan, is_quiet=is_quiet)
    view.note(title)
    is_there = (directory / "run.db").exists()
    run = TerminalRun(plan, directory, as_toml(plan.request), is_there, credentials, view)
    try:
        with view, log_to_run(directory):
            run_async(run.play)
    except HubError as error:
        remarks().print(f"{title}: {error}", style="red", markup=False)
        return 1
    return INTERRUPTED if run.is_interrupted else 0


def _compared(directory: Path, asked: _Compare, full_tasks: int | None) -> Comparison:
    return compare_runs(_played(directory, asked), full_tasks or asked.full_tasks, in_detail=True)


def _played(directory: Path, asked: _Compare) -> list[ComparedRun]:
    found = [
        read_compared(directory / entry.folder, entry.model)
        for entry in asked.models
        if (directory / entry.folder / "run.db").exists()
    ]
    return [run for run in found if run.attempts]
