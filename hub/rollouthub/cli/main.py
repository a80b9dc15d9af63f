"""The program `hub`. Commands import what they need when they run, so that `--help` is fast."""

import errno
import gc
import os
import sys
from typing import Annotated

import typer

from rollouthub.cli.command_group import AllCommands
from rollouthub.cli.logs import log_to_terminal
from rollouthub.errors import HubError, UsageError
from rollouthub.models.key_protection import hide_secrets
from rollouthub.processes import set_import_defaults

app = typer.Typer(
    name="hub",
    cls=AllCommands,
    help="Play LLM-agent environments through MCP tools, check results out of the agent's reach, keep scored rollouts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


_COLLECT_AFTER = (50_000, 10, 10)
"""Thresholds of Python's collector: loading makes many objects and no garbage."""


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"hub {version('rollouthub')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="Log more; twice for everything.")] = 0,
) -> None:
    """Handle the options that every command shares."""
    log_to_terminal(verbose)


def main() -> None:
    """Run the command line. Exit codes: 0 all scored, 1 some unscored or a fault, 2 usage, 130 interrupted."""
    _open_standard_files()
    hide_secrets()
    set_import_defaults()
    _search_absolute_folders()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        try:
            app()
        except SystemExit as leaving:
            _leave_threads_behind(leaving.code)
            raise
        finally:
            sys.stdout.flush()
            gc.freeze()  # the process ends: walking all that is loaded would take a fifth of a short command's CPU
    except HubError as error:
        _complain(str(error))
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except ModuleNotFoundError as error:
        from rollouthub.plugins.extras import extra_with, pip_install

        extra = extra_with(error.name or "")
        if extra is None:
            raise
        _complain(f"this command needs {error.name}, which is not installed; run `{pip_install(extra)}`")
        sys.exit(2)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone; there is nobody left to tell.
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = str(error.filename)
            _complain(f"no file can be named {name[:60]!a}…: {len(name)} characters are too many; check what was given")
            sys.exit(2)
        if isinstance(error, PermissionError) and error.filename is not None:
            _complain(f"{error.filename!s}: permission denied; ask its owner for access, or name another place")
            sys.exit(2)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        _complain(
            "the output could not be written: the disk it goes to is full; what was collected is kept. Make room, "
            "then try again, a run with --resume"
        )
        sys.exit(1)


def _search_absolute_folders() -> None:
    """Drop relative folders from PATH, an empty one included: they would choose programs of the working folder."""
    given = os.environ.get("PATH", "").split(os.pathsep)
    absolute = [folder for folder in given if os.path.isabs(folder)]  # noqa: PTH117  # names, which need not exist
    if "PATH" in os.environ and absolute != given:
        os.environ["PATH"] = os.pathsep.join(absolute) or os.defpath


def _leave_threads_behind(code: object) -> None:
    """Exit at once if environment code that was given up still runs in a thread, which cannot be ended."""
    event_loop = sys.modules.get("rollouthub.event_loop")  # loaded where anything ran
    if event_loop is not None and event_loop.threads_left():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _open_standard_files() -> None:
    """Open /dev/null for each closed standard stream, so that no socket gets its file descriptor."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _drop_output() -> None:
    """Redirect stdout to /dev/null, so that flushing what is left in its buffer at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    from rich.text import Text

    from rollouthub.cli.console import PlainConsole

    PlainConsole(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), text))
