"""Opens stored files: text in the pager, pictures in desktop programs. Agents wrote the files: none is executed."""

import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL
from subprocess import run as run_program

import anyio
from textual.screen import Screen

from rollouthub.errors import UsageError
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain
from rollouthub_tui.actions.kept_files import Kept, kept_files
from rollouthub_tui.dialogs.questions import ChooseScreen
from rollouthub_tui.navigation import app_of, navigator
from rollouthub_tui.suspension import away

_LONGEST = 20_000_000
_LONGEST_NAME = 1000
_OPENING_SECONDS = 10


async def open_files(screen: Screen[None], run: WatchedRun, target: Target | None) -> None:
    """Let a person choose a file of the rollout, and show it.

    Raises:
        UsageError: there are no files, or no program can show it.
        RunDirectoryError: the record cannot be read.
    """
    found = list(kept_files(run, target))
    if not found:
        raise UsageError(f"nothing is kept of it but its record in {run.directory}")
    labels = [f"{file.label}\n  {file.path}" for file in found]
    chosen = await app_of(screen).push_screen_wait(ChooseScreen("Open which file?", labels))
    if chosen is None:
        return
    file, environ = found[chosen], navigator(screen).environ
    if file.is_text:
        _page(screen, file, environ)
    else:
        await _show(screen, file, environ)


def _page(screen: Screen[None], file: Kept, environ: Mapping[str, str]) -> None:
    pager = shlex.split(environ.get("PAGER") or "less")
    if not pager or shutil.which(pager[0]) is None:
        raise UsageError(f"there is no pager to show {file.path} with; name one in $PAGER")
    with tempfile.TemporaryDirectory(prefix="hub-watch-") as folder:
        copy = Path(folder) / "shown.txt"
        with file.path.open("rb") as stream:
            beginning = stream.read(_LONGEST)
        # A copy without what would drive the terminal: a pager may let it through.
        copy.write_text(plain(beginning.decode("utf-8", "replace"), _LONGEST), encoding="utf-8")
        with away(app_of(screen)):
            run_program([*pager, str(copy)], env=dict(environ), check=False)


async def _show(screen: Screen[None], file: Kept, environ: Mapping[str, str]) -> None:
    opener = shutil.which("xdg-open") or shutil.which("open")
    has_desktop = bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")) or "xdg" not in (opener or "xdg")
    ending = file.ending
    if opener is None or not has_desktop or ending is None:
        raise UsageError(f"nothing here can show it; the file is {file.path}")
    # Kept files are named by their digest alone, and programs go by the ending.
    link = Path(tempfile.mkdtemp(prefix="hub-watch-")) / f"kept{ending}"
    link.symlink_to(file.path.resolve())
    with anyio.move_on_after(_OPENING_SECONDS):
        await anyio.run_process(
            [opener, str(link)], env=dict(environ), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, check=False
        )
    screen.notify(plain(f"opened {file.path}", _LONGEST_NAME), markup=False)
