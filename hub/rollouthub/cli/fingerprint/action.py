"""What `hub fingerprint` does: plays a few tasks by the hub's own agents, reads a run, and prints what both say."""

import json
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rollouthub.analysis.fingerprint import Fingerprint, PlayedSample, PlayedShare, read_played
from rollouthub.cli.console import remarks, results
from rollouthub.cli.find_run import RUNS, find_run
from rollouthub.cli.fingerprint.fingerprint_view import print_fingerprint
from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import INTERRUPTED, TerminalRun, request_of
from rollouthub.cli.run.run_progress import LiveView
from rollouthub.engine.foreign_run import refuse_named_code, refuse_named_files
from rollouthub.engine.plan import Plan, TaskSubset, make_plan
from rollouthub.engine.run_request import RunRequest, as_toml
from rollouthub.engine.sampling_plan import choose_sample
from rollouthub.errors import ConfigError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.store import open_run
from rollouthub.telemetry.cpu import cpu_seconds

AGENTS = ("null", "oracle")
"""Who plays the sample; the first one's errors are the environment's."""
LOOKED_AT = 50
_PLAYERS: dict[str, Any] = {"model": None, "seats": {}, "agent_set": {}, "fallbacks": (), "base_url": (), "track": ()}
_CHOICE: dict[str, Any] = {"repeats": 1, "weights": {}, "band": None, "chosen": {}, "sample": None}


class _Interrupted(Exception):
    """A person ended the sample."""


def fingerprint_command(given: dict[str, Any], sample: int, source: str | None, *, as_json: bool, quiet: bool) -> int:
    """Measure an environment and print its fingerprint; returns the exit code."""
    stored = None if source is None else find_run(source, RUNS)
    request = _request(given, stored)
    credentials = load_credentials(os.environ, Path.cwd())
    plans = {agent: make_plan(request.model_copy(update={"agent": agent})) for agent in AGENTS}
    chosen = run_async(partial(choose_sample, plans["null"], credentials, sample))
    ((info, split),) = chosen.hosted
    found = Fingerprint.of(info, split, chosen.tasks[info.name])
    if stored is not None:
        share, tools = _of_run(stored, info.name)
        found = replace(found, run=share, tools=tuple(dict.fromkeys((*found.tools, *tools))))
    try:
        for agent, plan in plans.items():
            found.samples[agent] = _play(plan, chosen.subset, credentials, quiet=quiet)
    except _Interrupted:
        return INTERRUPTED
    if as_json:
        sys.stdout.write(json.dumps({**found.as_json(), "directory": None if stored is None else str(stored)}) + "\n")
    else:
        print_fingerprint(results(), found, stored)
    shares = [each.played for each in found.samples.values() if each.played is not None]
    return 0 if all(each.scored == each.rollouts for each in shares) else 1


def _request(given: dict[str, Any], stored: Path | None) -> RunRequest:
    config = None if stored is None or given.get("environments") else stored / "resolved.json"
    request = request_of(given, config, None, False)
    if stored is not None and config is not None:
        instead = "`hub fingerprint ENV --from RUN`"
        refuse_named_code(request.environments, stored, instead)
        refuse_named_files(request.environments, request.set, stored, instead)
        request = request.model_copy(update={"trust": bool(given.get("trust"))})  # a run does not say whom to trust
    if len(request.environments) != 1:
        named = ", ".join(request.environments) or "none"
        raise ConfigError(f"a fingerprint is of one environment; {named} is named: hub fingerprint ENV [--from RUN]")
    return request.model_copy(update={**_PLAYERS, **_CHOICE})


def _of_run(stored: Path, name: str) -> tuple[PlayedShare, list[str]]:
    """What a run says of an environment, and the names of tools that single tasks brought in its first rollouts."""
    with open_run(stored) as reader:
        shares = read_played(reader)
        records = islice((each for each in reader.rollouts() if each.environment.name == name), LOOKED_AT)
        tools = [tool.name for record in records for tool in record.other_tools.values()]
    if name not in shares:
        raise ConfigError(f"{stored} has no rollouts of {name}; it has those of {', '.join(shares) or 'nothing'}")
    return shares[name], tools


def _play(plan: Plan, subset: TaskSubset, credentials: Credentials, *, quiet: bool) -> PlayedSample:
    """Play the sample by the plan's agent."""
    if not quiet:
        remarks().print(f"{plan.agent_name} plays {sum(map(len, subset.tasks.values()))} tasks")
    cpu = cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="hub-fingerprint-") as folder:
        directory = Path(folder) / plan.agent_name
        view = LiveView(remarks(), plan, is_quiet=True)
        run = TerminalRun(replace(plan, subset=subset), directory, as_toml(plan.request), False, credentials, view)
        try:
            with view, log_to_run(directory):
                run_async(run.play)
        except UsageError as error:
            if plan.agent_name == AGENTS[0]:
                raise
            return PlayedSample(plan.agent_name, None, None, str(error))
        if run.is_interrupted:
            raise _Interrupted
        with open_run(directory) as reader:
            (share,) = read_played(reader).values()
    return PlayedSample(plan.agent_name, share, (cpu_seconds() - cpu) / share.rollouts)
