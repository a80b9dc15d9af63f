"""The output of `hub install`, `upgrade`, `remove` and `lock`: progress and results."""

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.console import warn as say_warning
from rollouthub.text import one_line
from rollouthub_registry.client.offer import Progress
from rollouthub_registry.install_flow.install_result import InstallResult
from rollouthub_registry.install_flow.progress import ProgressReport
from rollouthub_registry.install_flow.user_folders import UserFolders

_HEADS = {
    "installed": ("installed", "green"),
    "present": ("already installed", "dim"),
    "planned": ("would install", ""),
}


def telling(is_quiet: bool) -> ProgressReport:
    """Progress messages for a terminal; with JSON output, warnings only."""

    def note(line: str) -> None:
        if not is_quiet:
            remarks().print(Text(one_line(line), style="dim"))

    def warn(line: str) -> None:
        say_warning(one_line(line, 1000))

    @contextmanager
    def bar(label: str) -> Generator[Progress | None]:
        if is_quiet or not sys.stderr.isatty():
            yield None
            return
        with _bar(one_line(label)) as progress:
            yield progress

    return ProgressReport(note, warn, bar)


@contextmanager
def _bar(label: str) -> Generator[Progress]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    # The label is somebody else's text: shown as it is, never read as markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, console=remarks(), transient=True) as bars:
        task = bars.add_task(label, total=None)

        def progress(came: int, whole: int | None) -> None:
            bars.update(task, completed=came, total=whole)

        yield progress


def show_done(done: Sequence[InstallResult], lock: Path | None, place: UserFolders) -> None:
    """Print the result for each environment."""
    console = results()
    for each in done:
        word, style = _HEADS[each.state]
        took = f" in {each.seconds:.1f} s" if each.state == "installed" else ""
        console.print(Text.assemble((word, style), " ", (each.target, "bold"), took))
        # The bare name is the highest version's.
        meant = place.home.find(each.locked.name)
        run_as = each.target if meant is not None and meant.target != each.target else each.locked.name
        for key, value in _lines(each, run_as, place.environ):
            console.print(Text.assemble((f"  {key:<10}", "dim"), one_line(value)))
    if lock is not None:
        console.print(Text(f"locked in {lock}", style="dim"))


def done_json(done: Sequence[InstallResult], lock: Path | None, environ: Mapping[str, str]) -> str:
    """The results as one JSON object."""
    environments = [_as_json(each, environ) for each in done]
    return json.dumps({"environments": environments, "lock": None if lock is None else str(lock)})


def _lines(done: InstallResult, run_as: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    locked = done.locked
    lines = [("from", locked.source or "nowhere"), ("signed by", _signer(done))]
    if done.state != "present":
        lines.append(("bundle", locked.bundle or "none"))
        lines.append(("licence", done.licence or "none is named: ask its author what you may do with it"))
        if done.checks_passed is False:
            lines.append(("checks", "failed when it was published"))
    if done.secrets:
        missing = [name for name in done.secrets if not environ.get(name)]
        unset = f" (not set: {', '.join(missing)})" if missing else ""
        lines.append(("needs", f"{', '.join(done.secrets)}{unset}"))
    if done.replaced is not None:
        gone = f"{locked.name}@{done.replaced}"
        lines.append(("before", f"{gone} stays until `hub remove {gone}`"))
    if done.state != "planned":
        lines.append(("run it", f"hub run {run_as}"))
    return lines


def _signer(done: InstallResult) -> str:
    if done.locked.key_id is None:
        return "no key"
    namespace = done.locked.name.partition("/")[0]
    first = f", the first key of {namespace!r} here, and from now on its only one" if done.is_new_key else ""
    return f"{done.locked.key_id}{first}"


def _as_json(done: InstallResult, environ: Mapping[str, str]) -> dict[str, Any]:
    locked = done.locked
    return {
        "name": locked.name,
        "version": locked.version,
        "state": done.state,
        "source": locked.source,
        "bundle": locked.bundle,
        "dependencies": locked.dependencies_digest,
        "key_id": locked.key_id,
        "is_new_key": done.is_new_key,
        "checks_passed": done.checks_passed,
        "license": done.licence,
        "secrets": list(done.secrets),
        "missing_secrets": [name for name in done.secrets if not environ.get(name)],
        "replaced": done.replaced,
        "seconds": round(done.seconds, 3),
    }


def write(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + os.linesep)
