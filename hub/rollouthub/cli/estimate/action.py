"""What `hub estimate` does: chooses a sample of tasks, plays it or reads it from a run, projects and prints."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rollouthub.analysis.estimate import Planned, RunEstimate, estimate_run
from rollouthub.analysis.sample_pictures import SamplePictures, read_pictures
from rollouthub.analysis.sample_usage import read_sample
from rollouthub.cli.console import remarks, results, warn
from rollouthub.cli.estimate.estimate_view import print_estimate
from rollouthub.cli.find_run import RUNS, find_run
from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import INTERRUPTED, TerminalRun, request_of
from rollouthub.cli.run.run_progress import LiveView
from rollouthub.engine.foreign_run import refuse_named_code, refuse_named_files
from rollouthub.engine.plan import Plan, make_plan
from rollouthub.engine.policy_model import with_default_model
from rollouthub.engine.run_request import as_toml
from rollouthub.engine.sampling_plan import SamplePlan, choose_sample
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.prices import Price, find_price
from rollouthub.models.resolve import addressed
from rollouthub.store import RunReader, open_run
from rollouthub.store.sql_schema import MEDIA
from rollouthub.text import one_line

ROW_BYTES, PAGE_FILL = 700, 1.2
"""Bytes of columns and indexes per rollout in a large database, and its growth factor for unfilled pages."""


def estimate_command(
    given: dict[str, Any],
    config: Path | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    *,
    sample: int,
    source: str | None,
) -> int:
    """Estimate a run and print the estimate; returns the exit code."""
    stored = None if source is None else find_run(source, RUNS)
    if stored is not None and output is not None:
        raise ConfigError("--from plays nothing, so there is nothing to keep in -o; leave one of them out")
    if stored is not None and config is None and not given.get("environments"):
        config = stored / "resolved.json"
    request = request_of(given, config, None, False)
    if stored is not None and config == stored / "resolved.json":
        instead = "`hub estimate ENV --from RUN`"
        refuse_named_code(request.environments, stored, instead)
        refuse_named_files(request.environments, request.set, stored, instead)
        request = request.model_copy(update={"trust": bool(given.get("trust"))})  # a run does not say whom to trust
    if output is None:
        request = request.model_copy(update={"track": ()})
    credentials = load_credentials(os.environ, Path.cwd())
    plan = make_plan(request if stored is not None else with_default_model(request, credentials))
    chosen = run_async(partial(choose_sample, plan, credentials, sample))
    with ExitStack() as stack:
        directory = stored or output
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-estimate-"))) / "sample"
        if stored is None and not _play(replace(plan, subset=chosen.subset), directory, credentials, quiet):
            return INTERRUPTED
        with open_run(directory) as reader:
            pictures = read_pictures(reader, "" if plan.model is None else plan.model.name)
            price = None if stored is None and not pictures.is_adjusted else _price(plan, reader, credentials, pictures)
            estimate = _project(plan, chosen, reader, price, pictures)
    if as_json:
        sys.stdout.write(json.dumps({**estimate.as_json(), "run": str(output or stored or "") or None}) + os.linesep)
    elif not quiet:
        print_estimate(results(), estimate, plan.request, output)
    elif estimate.scored < estimate.sampled:
        for remark in estimate.remarks:
            warn(remark)
    return 0 if estimate.scored == estimate.sampled else 1


def _play(plan: Plan, directory: Path, credentials: Credentials, quiet: bool) -> bool:
    """Play the sample; return False if it was interrupted."""
    view = LiveView(remarks(), plan, is_quiet=quiet)
    run = TerminalRun(plan, directory, as_toml(plan.request), False, credentials, view)
    with view, log_to_run(directory):
        run_async(run.play)
    return not run.is_interrupted


def _price(plan: Plan, reader: RunReader, credentials: Credentials, pictures: SamplePictures) -> Price | None:
    """The price of the planned model if the sample's recorded cost is not that of the plan: with another model, price
    or count of pictures; otherwise None.
    """
    stored = reader.info.resolved.get("request")
    before: Mapping[str, Any] = stored if isinstance(stored, dict) else {}
    if plan.model is None:
        return None
    same = all(before.get(name) == getattr(plan.request, name) for name in ("model", "price_prompt", "price_output"))
    found = addressed(plan.model, credentials)
    return None if same and not pictures.is_adjusted else find_price(found, found.base_url)


def _project(
    plan: Plan, chosen: SamplePlan, reader: RunReader, price: Price | None, pictures: SamplePictures
) -> RunEstimate:
    samples = read_sample(reader, price, pictures.unreported)
    missing = [name for name in chosen.tasks if name not in samples]
    if missing:
        raise ConfigError(
            f"{reader.directory} has no rollouts of {', '.join(missing)}, so nothing can be said of them; "
            "see what went wrong there with `hub show`, or estimate without --from"
        )
    planned = {name: Planned(tasks, tasks * plan.request.repeats) for name, tasks in chosen.tasks.items()}
    attempts = reader.totals().attempts
    media = sum(file.stat().st_size for file in (reader.directory / MEDIA).rglob("*") if file.is_file())
    content = PAGE_FILL * reader.content_bytes() + ROW_BYTES * attempts + media
    rollouts = sum(sample.rollouts for sample in samples.values())
    estimate = estimate_run(samples, planned, plan.request, content / rollouts, pictures)
    broke = (f"{fault}, for example: {one_line(said)}" for fault, said in sorted(reader.fault_examples().items()))
    return replace(estimate, remarks=(*estimate.remarks, *broke))
