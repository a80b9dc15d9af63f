"""What the `hub model` commands do."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Literal

import anyio
from rich.table import Table
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.serve.model.model_options import ServeModelOptions
from rollouthub.cluster.models.fleet import Fleet, RunningModel, find_source, is_lost, usual_name
from rollouthub.cluster.models.local_head import find_head
from rollouthub.cluster.models.model_spec import (
    HUB_TOKENS,
    KEY_VARIABLES,
    SERVER_KEY_VARIABLE,
    ModelSpec,
    Secrets,
    ServerTimeouts,
    passed_on,
)
from rollouthub.cluster.models.server_command import TOOLS, check_arguments
from rollouthub.errors import HubError, UnknownNameError, UsageError, raise_first_error
from rollouthub.models.address import is_loopback
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.provider_names import WIRE
from rollouthub.models.registered import (
    PROVIDERS,
    SILENT_SECONDS,
    Registration,
    ServerRow,
    registrations,
    registry_folder,
)

INTERRUPTED = 130
_SPECIFIED = {"engine", "replicas", "tensor_parallel", "cpus", "command", "host", "port", "restarts"}
_WATCH_SECONDS = 1.0
_STYLES = {"healthy": "green", "failed": "bold red", "unhealthy": "yellow", "restarting": "yellow"}
NOTHING = "No model is up. Bring one up (hub serve model MODEL)."


async def bring_up(source: str, arguments: tuple[str, ...], options: ServeModelOptions) -> int:
    """Start a model's servers; returns the exit code."""
    credentials = load_credentials(os.environ, Path.cwd())
    folder = registry_folder(os.environ.get)
    check_arguments(options.engine, arguments)
    spec = ModelSpec(
        name=options.name or usual_name(source),
        source=find_source(source),
        variables=passed_on(os.environ),
        directory=str(Path.cwd()),
        folder=str(folder),
        cluster="",
        patience=ServerTimeouts(start=options.start_seconds),
        arguments=arguments,
        **options.model_dump(include=_SPECIFIED),
    )
    if "#" in spec.name or not spec.name.strip("./"):
        raise UsageError(f"{spec.name!r} is no name to serve a model under; give --name one without #")
    secrets = _secrets(credentials, KEY_VARIABLES[spec.engine])
    fleet = Fleet(folder, _note)
    work = _Bringing(fleet, spec, secrets, options)
    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(work.end_on_signal, tasks.cancel_scope)
        await work.run()
        tasks.cancel_scope.cancel()
    return INTERRUPTED if work.was_interrupted and not work.is_up else 0


class _Bringing:
    """One call of `hub serve model`."""

    def __init__(
        self,
        fleet: Fleet,
        spec: ModelSpec,
        secrets: Secrets,
        options: ServeModelOptions,
    ) -> None:
        self._fleet, self._spec, self._secrets, self._options = fleet, spec, secrets, options
        self._reported: dict[int, tuple[str, int]] = {}
        self.is_up = self.was_interrupted = False

    async def end_on_signal(self, everything: anyio.CancelScope) -> None:
        """On Ctrl-C or SIGTERM cancel the work in progress; a model that already serves in the background stays up."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                self.was_interrupted = True
                everything.cancel()

    async def run(self) -> None:
        """Start the servers and wait until the model is up; with --foreground, until its servers end."""
        started = time.monotonic()
        async with self._fleet.up(self._spec, self._secrets, self._options.address, self._report_changes) as model:
            self.is_up = True
            found = await model.look()
            _note(f"{found.model} is up after {time.monotonic() - started:.0f} s")
            if self._options.as_json:
                _print_json(_shown(found, is_lost=False))
            else:
                self._explain(found)
            if self._options.foreground:
                try:
                    await self._watch(model)
                finally:
                    with anyio.CancelScope(shield=True):
                        await model.end()

    async def _watch(self, model: RunningModel) -> None:
        """Print changes of the servers' states.

        Raises:
            HubError: all servers have failed.
        """
        while True:
            found = await model.look()
            self._report_changes(found)
            if all(server.state == "failed" for server in found.servers):
                raise HubError(f"every server of {found.model!r} has died too often; see what it wrote above")
            await anyio.sleep(_WATCH_SECONDS)

    def _report_changes(self, found: Registration) -> None:
        """Print a line for each server whose state or number of restarts changed."""
        for server in found.servers:
            if self._reported.get(server.number) == (now := (server.state, server.restarts)):
                continue
            self._reported[server.number] = now
            where = f" at {server.base_url}" if server.base_url and server.state == "healthy" else ""
            log = f" (log: {server.log})" if server.state == "starting" and server.log else ""
            _note(f"replica {server.number}: {server.state}{where}{log}")
            if server.problem and server.state in ("restarting", "failed") and self.is_up:
                _note(server.problem)

    def _explain(self, found: Registration) -> None:
        console = results()
        console.print(f"Play with it:  hub run ENV -m {found.full_name}", markup=False)
        console.print(f"Look at it:    hub model list    end it: hub model stop {found.model}", markup=False)
        self._explain_tools()
        if not found.needs_key and not all(map(is_loopback, found.urls)):
            variable = KEY_VARIABLES[found.engine]
            _note(f"anyone who reaches its servers may use them: set {variable} before `hub serve model`")
        taken = [variable for variable in WIRE[PROVIDERS[found.engine]].base_urls if os.environ.get(variable)]
        if taken:
            _note(f"{taken[0]} is set and names another server: `hub run` goes there while it is")

    def _explain_tools(self) -> None:
        """Say what is missing for the model to call tools."""
        option, given = TOOLS[self._spec.engine], self._spec.arguments
        if any(argument.partition("=")[0].replace("_", "-") == option for argument in given):
            return
        if self._spec.engine == "vllm":
            _note(f"it refuses requests with tools: for those, add  -- {option} --tool-call-parser PARSER")
        else:
            _note(f"calls of tools stay text: for those, add  -- {option} PARSER")


def show_models(as_json: bool) -> None:
    """Print the models that are being served, and the state of each server."""
    folder = registry_folder(os.environ.get)
    found = registrations(folder)
    head = find_head(folder)
    shown = [(each, is_lost(each, head) or each.silent_seconds > SILENT_SECONDS) for each in found]
    if as_json:
        _print_json([_shown(each, is_lost=lost) for each, lost in shown])
        return
    console = results()
    if not found:
        console.print(NOTHING)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("model", "replica", "state", "for", "restarts", "running", "waiting", "tokens/s", "server"):
        table.add_column(column)
    for each, lost in shown:
        for server in each.servers:
            table.add_row(*_cells(each, server, lost))
    console.print(table)
    for each, lost in shown:
        if lost:
            _note(
                f"{each.model}: its keeper has not been heard of for {each.silent_seconds:.0f} s; clear it with "
                f"`hub model stop {each.model}`"
            )
        for server in each.servers:
            if server.problem and server.state != "healthy":
                said = server.problem if server.state == "failed" else server.problem.partition("; its last words")[0]
                _note(f"{each.model} replica {server.number}: {said} (log: {server.log})")


async def take_down(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Stop models.

    Raises:
        UsageError: no model was named, or one is not being served.
    """
    folder = registry_folder(os.environ.get)
    known = {each.model: each for each in registrations(folder)}
    if every == bool(names):
        raise UsageError("name the models to take down (`hub model list` shows them), or say --all")
    for name in names:
        if name not in known:
            raise UnknownNameError("model that is up", name, known, "Look with `hub model list`.")
    fleet = Fleet(folder, _note)
    stopped = list(dict.fromkeys(names or known))
    for name in stopped:
        await fleet.down(known[name])
        if not as_json:
            results().print(f"{name} is down", markup=False)
    if every and folder.is_dir():
        await fleet.end_head()
    if as_json:
        _print_json({"stopped": stopped})


def _secrets(credentials: Credentials, key_variable: str) -> Secrets:
    key = credentials.key(key_variable)
    values = {} if key is None else {SERVER_KEY_VARIABLE: key}
    for variable in HUB_TOKENS:
        if token := credentials.key(variable):
            values[variable] = token
    return Secrets(values)


def _cells(registration: Registration, server: ServerRow, lost: bool) -> tuple[str | Text, ...]:
    state: str | Literal["lost"] = "lost" if lost else server.state
    rate = "" if server.tokens_per_second is None else f"{server.tokens_per_second:,.0f}"
    return (
        registration.model,
        str(server.number),
        Text(state, style=_STYLES.get(state, "bold red" if lost else "")),
        _age(time.time() - server.since) if server.since else "",
        str(server.restarts),
        "" if server.running is None else str(server.running),
        "" if server.waiting is None else str(server.waiting),
        rate,
        server.base_url or "",
    )


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _shown(registration: Registration, *, is_lost: bool) -> dict[str, Any]:
    return {**registration.model_dump(mode="json"), "is_lost": is_lost}


def _note(text: str) -> None:
    remarks().print(Text(text, style="dim"), soft_wrap=True)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + os.linesep)
