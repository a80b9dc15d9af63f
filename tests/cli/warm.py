"""A `hub` that has loaded its modules and waits: each command runs in a fork of it, a process like any other.

Loading takes most of a second, and a command that refuses a word hardly more: `LOADED` is what many of them load. What
tests start beside themselves (`started`), and what the README shows, loads everything as a user's does.
"""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

LOADED = (
    "rollouthub.analysis.foreign_runs.formats.atif_files",
    "rollouthub.analysis.foreign_runs.formats.chat_lines",
    "rollouthub.analysis.foreign_runs.formats.harbor_jobs",
    "rollouthub.analysis.foreign_runs.formats.inspect_logs",
    "rollouthub.analysis.foreign_runs.formats.langfuse",
    "rollouthub.analysis.foreign_runs.formats.nemo_gym_rows",
    "rollouthub.analysis.foreign_runs.formats.otlp",
    "rollouthub.analysis.foreign_runs.formats.phoenix",
    "rollouthub.analysis.foreign_runs.formats.tau2_results",
    "rollouthub.analysis.foreign_runs.formats.verifiers_results",
    "rollouthub.analysis.foreign_runs.formats.weave",
    "rollouthub.analysis.foreign_runs.open_foreign",
    "rollouthub.authoring.conversation",
    "rollouthub.authoring.rows.pinned_data",
    "rollouthub.authoring.users",
    "rollouthub.cli.compare.action",
    "rollouthub.cli.compare.change_tables",
    "rollouthub.cli.compare.command",
    "rollouthub.cli.compare.compare_tables",
    "rollouthub.cli.completion",
    "rollouthub.cli.export.command",
    "rollouthub.cli.export.record_files",
    "rollouthub.cli.foreign_progress",
    "rollouthub.cli.main",
    "rollouthub.cli.report.command",
    "rollouthub.cli.run.action",
    "rollouthub.cli.run.command",
    "rollouthub.cli.run_tables",
    "rollouthub.cli.score.command",
    "rollouthub.cli.score.rescore_action",
    "rollouthub.cli.serve.env.action",
    "rollouthub.cli.setting_options",
    "rollouthub.cli.show.chosen_rollouts",
    "rollouthub.cli.show.command",
    "rollouthub.cli.show.transcript_view",
    "rollouthub.gateway.sessions.external_agent",
    "rollouthub.hosting.open_host",
    "rollouthub.models.direct.lane",
    "rollouthub.plugins.lookup",
    "rollouthub.telemetry.trackers.tensorboard",
    "rollouthub.views.report.gather",
    "rollouthub.views.report.html_page",
    "rollouthub.views.report.json_facts",
    "rollouthub.views.report.markdown",
    "rollouthub.views.report.write",
    "rollouthub_agents.null",
    "rollouthub_agents.oracle",
    "rollouthub_agents.single_turn",
    "rollouthub_agents.tool_loop",
    "rollouthub_servers.arithmetic",
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "certifi",
    "httpcore",
    "rich.columns",
    "rich.markdown",
    "rich.panel",
    "typer._adapters",
    "typer.rich_utils",
    "uvloop",
)
HUB = "from rollouthub.cli.main import main; main()"
OF_OPENAI = (
    "rollouthub.models.openai.batch_model",
    "rollouthub.models.openai.lane",
    "rollouthub.models.openai.openai_package",
    "openai.resources.batches",
    "openai.resources.chat",
    "openai.resources.files",
    "openai.resources.responses",
)
"""What commands load that ask by OpenAI's package; it is half as much again, which each fork of it would pay for."""
WAIT = "from tests.cli.warm import wait; wait({}, {})"  # with -c, as `HUB`: what lies in the folder can be imported
MOST_BYTES = 1 << 20
LOADING_SECONDS = 60.0
"""Most that loading takes."""


class WarmHub:
    """Runs commands one after the other, each in a fork."""

    def __init__(self, line: socket.socket, variables: Mapping[str, str]) -> None:
        self._line, self._read = line, _pythons_own(variables)

    def reads_the_same(self, variables: Mapping[str, str]) -> bool:
        """Whether Python, when it started here, found what it would find with these variables."""
        return _pythons_own(variables) == self._read

    def run(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_seconds: float,
        stdin: bytes | None = None,
        program: str = HUB,
        on_start: Callable[[int], None] = lambda pid: None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with captured output; `stdin` is what fits into a pipe, `program` what `-c` would run.
        `on_start` is told the process's id.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _readable(stdin) as given:
            asked = json.dumps([command, str(folder), dict(environment), program]).encode()
            self._line.settimeout(LOADING_SECONDS)
            socket.send_fds(self._line, [asked], [given, out.fileno(), err.fileno()])
            pid = int(self._line.recv(64))
            on_start(pid)
            self._line.settimeout(timeout_seconds)
            try:
                code = int(self._line.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._line.settimeout(60)
                self._line.recv(64)
                raise subprocess.TimeoutExpired(command, timeout_seconds) from None
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())


def _pythons_own(variables: Mapping[str, str]) -> dict[str, str]:
    """What Python itself reads when it starts, and never again."""
    return {name: value for name, value in variables.items() if name.startswith("PYTHON")}


@contextmanager
def _readable(stdin: bytes | None) -> Generator[int]:
    """A file to read this from."""
    if stdin is None:
        with Path(os.devnull).open("rb") as nothing:
            yield nothing.fileno()
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, stdin)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


@contextmanager
def warm_hub(more: tuple[str, ...] = ()) -> Generator[WarmHub]:
    """A `hub` that is warm as long as this is open, and has loaded `more`, too."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    root, number = Path(__file__).parents[2], theirs.fileno()
    with ours, subprocess.Popen([sys.executable, "-c", WAIT.format(number, more)], cwd=root, pass_fds=[number]):
        theirs.close()
        yield WarmHub(ours, os.environ)
        ours.close()  # which it takes for the end


def wait(number: int, more: tuple[str, ...] = ()) -> None:
    """Load, and fork for each command that comes over a socket; in the fork, be `hub`, or what was asked for."""
    for module in (*LOADED, *more):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else the first collection of each fork copies all that is loaded
    assert threading.active_count() == 1  # only such a process may fork
    with socket.socket(fileno=number) as line:
        while True:
            asked, files, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
            if not asked:
                return
            pid = os.fork()
            if pid == 0:
                break
            for file in files:
                os.close(file)
            line.send(str(pid).encode())
            _, status = os.waitpid(pid, 0)
            line.send(str(os.waitstatus_to_exitcode(status)).encode())
    arguments, folder, environment, program = json.loads(asked)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # of the variables of whoever started this
    sys.argv[1:] = arguments
    exec(program, vars(sys.modules["__main__"]))
