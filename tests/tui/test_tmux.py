"""Watching for real: `hub run` in one pane of tmux, `hub watch` in another, driven by keys."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from rollouthub.bench.real_runs import HUB, world
from rollouthub.rollout import Outcome
from rollouthub.store import open_run

pytestmark = pytest.mark.live

RUN = (
    "run arithmetic -m mock/solver?accuracy=0.6&fail=0.08&latency=0.5..3 "
    "--retries 0 --limit 150 --repeats 2 -c 6 --seed 7 -o runs/sums"
)
_SECONDS = 120.0


class Tmux:
    """A server of its own, with a window of 120×40 for each name."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._folder, self._environ = folder, world(folder)
        self._environ.pop("TMUX", None)

    def open(self, name: str, command: str) -> None:
        """Run a command in a window."""
        begin = ["new-session", "-d", "-x", "120", "-y", "40", "-s"] if name == "run" else ["new-window", "-d", "-n"]
        self._ask(*begin, name, f"cd {shlex.quote(str(self._folder))}; {command}; sleep 600")

    def press(self, name: str, *keys: str) -> None:
        """Type."""
        self._ask("send-keys", "-t", self._target(name), *keys)

    def screen(self, name: str) -> str:
        """What is in a window."""
        return self._ask("capture-pane", "-p", "-t", self._target(name))

    def until(self, name: str, claim: Callable[[str], object]) -> str:
        """Wait until a window shows what is wanted."""
        end = time.monotonic() + _SECONDS
        while not claim(screen := self.screen(name)):
            assert time.monotonic() < end, f"it never came to that; in {name} is:\n{screen}"
            time.sleep(0.1)
        return screen

    def close(self) -> None:
        """End the server, and with it what runs in its windows."""
        self._ask("kill-server")

    def _target(self, name: str) -> str:
        return "run:0" if name == "run" else f"run:{name}"

    def _ask(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", os.devnull, *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout


@pytest.fixture
def tmux(tmp_path: Path) -> Generator[Tmux]:
    """Skipped aloud where there is no tmux."""
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    server = Tmux(tmp_path)
    server.open("run", f"{shlex.join(HUB)} {shlex.join(RUN.split())}")
    yield server
    server.close()


def endings(run: Path) -> dict[str, Outcome]:
    """How each rollout ended that is durable."""
    with open_run(run) as reader:
        return {row.rollout_id: row.outcome for row in reader.summaries()}


def test_attach_filter_to_errors_open_one_and_cancel_one_in_flight(tmux: Tmux, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "sums"
    tmux.until("run", lambda screen: "hub watch" in screen)
    tmux.open("watch", f"{shlex.join(HUB)} watch")
    tmux.until("watch", lambda screen: re.search(r"sums +running", screen))

    tmux.press("watch", "Enter")
    tmux.until("watch", lambda screen: "[1 overview]" in screen and "in flight" in screen)
    tmux.press("watch", "2")
    tmux.until("watch", lambda screen: "[2 rollouts" in screen)
    tmux.press("watch", "e")
    tmux.until("watch", lambda screen: "[2 rollouts" in screen and "model failed" in screen and "scored" not in screen)
    assert Outcome.MODEL_FAILED in endings(run).values()

    tmux.press("watch", "Enter")
    tmux.until("watch", lambda screen: "1 Conversation" in screen and "infrastructure fault: model_failed" in screen)
    tmux.press("watch", "2")
    tmux.until("watch", lambda screen: "simulated failure" in screen)
    tmux.press("watch", "Escape")
    tmux.until("watch", lambda screen: "[2 rollouts" in screen)

    tmux.press("watch", "e")
    tmux.until("watch", lambda screen: "scored" in screen)
    tmux.press("watch", "L")
    tmux.until("watch", lambda screen: re.search(r"^› . (setup|model|tool|verify|queued)", screen, re.MULTILINE))
    before = {name for name, outcome in endings(run).items() if outcome is Outcome.CANCELLED}
    assert before == set()
    tmux.press("watch", "x")
    asked = tmux.until("watch", lambda screen: "now, unscored?" in screen)
    found = re.search(r"End [^(]*\((\S+)\) now, unscored\?", asked)
    assert found is not None
    tmux.press("watch", "y")
    tmux.until("watch", lambda screen: "now, unscored?" not in screen)

    end = time.monotonic() + _SECONDS
    while found[1] not in endings(run):
        assert time.monotonic() < end, "what was cancelled was never recorded"
        time.sleep(0.1)
    assert endings(run)[found[1]] is Outcome.CANCELLED
    tmux.press("watch", "e")
    tmux.until("watch", lambda screen: re.search(r"○ cancelled", screen))
    tmux.press("watch", "1")
    tmux.until("watch", lambda screen: re.search(r"○ cancelled 1\b", screen))
    tmux.press("watch", "q", "q")
    tmux.until("watch", lambda screen: "[1 overview]" not in screen and "Runs" not in screen)


def test_keys_sent_at_once_open_a_run_its_rollouts_and_one_of_them(tmux: Tmux) -> None:
    tmux.until("run", lambda screen: "hub watch" in screen)
    tmux.open("watch", f"{shlex.join(HUB)} watch")
    tmux.until("watch", lambda screen: re.search(r"sums +running", screen))
    tmux.press("watch", "Enter", "2", "/", "arith", "Enter", "G", "k", "Enter", "4")
    tmux.until("watch", lambda screen: "1 Conversation" in screen and re.search(r"arithmetic · \S+ · sample", screen))
    tmux.press("watch", "Escape")
    tmux.until("watch", lambda screen: "[2 rollouts" in screen and "search “arith”" in screen)
