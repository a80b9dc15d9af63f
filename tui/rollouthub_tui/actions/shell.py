"""Opens a shell in a rollout's sandbox; the screen is suspended until it ends."""

import shlex
import time
from subprocess import run as run_program

from textual.screen import Screen

from rollouthub.live.control.live_views import ShellView
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain, plain_name
from rollouthub_tui.dialogs.questions import ChooseScreen
from rollouthub_tui.navigation import app_of
from rollouthub_tui.suspension import away

_LONGEST = 300
_AT_ONCE_SECONDS = 1.0


async def open_shell(screen: Screen[None], run: WatchedRun, rollout_id: str) -> None:
    """Ask the hub how to enter the rollout's sandboxes, and open a shell in one.

    Raises:
        LiveControlError: the hub does not answer, or refuses.
        UsageError: the rollout is no longer in flight.
        OSError: the program that opens the shell is not installed.
    """
    shown = await run.ask(lambda hub: hub.show(rollout_id))
    if not shown.shells:
        reason = shown.no_shell or "its programs run nowhere that could be gone into"
        screen.notify(plain(reason, _LONGEST), severity="warning", markup=False)
        return
    shell = await _choose(screen, shown.shells)
    if shell is None:
        return
    began = time.monotonic()
    with away(app_of(screen)):
        # The screen stands still meanwhile, which is what is wanted.
        code = run_program(shell.command, check=False).returncode  # noqa: ASYNC221
    # A shell ends as the last command in it did, which is nobody's concern; one that never began is.
    if code and time.monotonic() - began < _AT_ONCE_SECONDS:
        command = plain(shlex.join(shell.command), _LONGEST)
        screen.notify(f"ended at once with exit code {code}: {command}", severity="warning", markup=False)


async def _choose(screen: Screen[None], shells: tuple[ShellView, ...]) -> ShellView | None:
    if len(shells) == 1:
        return shells[0]
    labels = [plain_name(shell.label) for shell in shells]
    chosen = await app_of(screen).push_screen_wait(ChooseScreen("Which of its places?", labels))
    return None if chosen is None else shells[chosen]
