"""`hub play`: a person at a terminal, and a script in a person's place."""

import fcntl
import json
import os
import pty
import select
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rollouthub import Rollout, Stop
from rollouthub.rollout import Outcome
from rollouthub.store import open_run

from .conftest import HUB, Done, Hub, environment

CTRL_C, CTRL_D = "\x03", "\x04"
BOOTH = '''
from collections.abc import Iterator
from typing import Literal
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


class Booth(Environment[EnvironmentConfig]):
    """Takes orders."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterator[Task]:
        yield Task(Public(id="1", prompt="First."), Secret(answer="x"))
        yield Task(Public(id="2", prompt="\\x1b]0;owned\\x07[bold]2*3*4 \\u202e"), Secret(answer="x"))

    @tool
    async def order(self, size: Literal["small", "large"], count: int, notes: list[str] | None = None) -> str:
        """Order.

        Args:
            size: How much.
        """
        return f"\\x1b[2J{size} {count} {notes}"

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=0.25, feedback=submission.answer or "")
'''


class Terminal:
    """A pseudo-terminal with `hub play` on it."""

    def __init__(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        self._number, self.process = number, process
        self.shown: str = ""
        self._decoder = getincrementaldecoder("utf-8")()
        self._read = 0

    def type(self, text: str, *, after: str) -> None:
        """Wait for a prompt, then type."""
        self.read(after)
        os.write(self._number, text.encode())

    def read(self, text: str | None = None) -> str:
        """What is shown up to a text, or to the end."""
        start, deadline = self._read, time.monotonic() + 60
        while text is None or (end := self.shown.find(text, start)) < 0:
            ready, _, _ = select.select([self._number], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come: {self.shown}"
            try:
                piece = os.read(self._number, 65536)
            except OSError:  # all who had it open are gone
                piece = b""
            self.shown += self._decoder.decode(piece)  # a character may come in two pieces
            if not piece:
                assert text is None, f"it left before {text!r}: {self.shown}"
                end = len(self.shown)
                break
        self._read = end
        return self.shown[start:end]


@contextmanager
def terminal(folder: Path, *arguments: str) -> Generator[Terminal]:
    """A person's `hub play -o run …`, whose Ctrl-C is a terminal's own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*HUB, "play", *arguments, "-o", "run"],
        cwd=folder,
        env=environment(TERM="dumb", COLUMNS="100"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def scripted(folder: Path, typed: str, *arguments: str) -> Done:
    """A script's `hub play -o run …`: a line for each prompt."""
    command = [*HUB, "play", *arguments, "-o", "run"]
    return Done(
        subprocess.run(
            command, cwd=folder, env=environment(), input=typed, capture_output=True, text=True, timeout=60, check=False
        )
    )


def played(folder: Path) -> Rollout:
    """The record."""
    with open_run(folder / "run") as reader:
        [row] = reader.summaries()
        return reader.rollout(row.rollout_id)


def test_a_person_plays_at_a_terminal_and_reads_the_score_at_the_end(tmp_path: Path) -> None:
    with terminal(tmp_path, "arithmetic", "--set", "terms=2", "--max-seconds", "600") as person:
        question = person.read("turn 1 of 50")
        sum_ = question.partition("What is ")[2].partition("?")[0]
        person.type("calc\n", after="> ")
        person.type("\n", after="expression (text): ")
        person.type(f"{sum_}\n", after="is needed")
        person.type(CTRL_C, after="turn 2 of 50")
        person.type("g\n", after="[g]o on: ")
        person.type("submit\n", after="turn 2 of 50")
        answer = eval(sum_)
        assert "reward" not in person.shown
        person.type(f"{answer}\n", after="answer (text): ")
        assert "passed, reward 1.000" in person.read()
    assert person.process.returncode == 0
    rollout = played(tmp_path)
    assert (rollout.agent.name, rollout.stop, rollout.answer) == ("human", Stop.SUBMITTED, str(answer))
    assert [call.name for turn in rollout.turns for call in turn.tool_calls] == ["calculate", "submit"]


def test_who_leaves_twice_discards(tmp_path: Path) -> None:
    with terminal(tmp_path, "arithmetic") as person:
        person.type(CTRL_D, after="turn 1")
        person.type(CTRL_C, after="[d]iscard")
        assert "no reward: unscored" in person.read()
    assert person.process.returncode == 130
    rollout = played(tmp_path)
    assert (rollout.outcome, rollout.score) == (Outcome.CANCELLED, None)


def test_a_script_fills_in_forms_of_a_task_that_would_drive_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "booth.py").write_text(BOOTH)
    typed = ["order", "medium", "2", "two", "3", '["a"]', "submit", '"""', "x", "y", '"""']
    done = scripted(tmp_path, "\n".join(typed), "./booth.py", "--task", "2", "--json")
    assert (done.code, done.json["task"], done.json["reward"], done.json["answer"]) == (0, "2", 0.25, "x\ny")
    assert "'medium' is none of them" in done.err
    assert "'two' is no whole number" in done.err
    assert "[bold]2*3*4" in done.err
    assert "large 3 ['a']" in done.err
    assert not {"\x1b", "\x07", "\u202e"} & set(done.err)
    assert json.loads((tmp_path / "run" / "resolved.json").read_text())["request"]["tasks"] == ["2"]


def test_a_person_plays_one_seat_and_says_who_plays_the_others(tmp_path: Path, hub: Hub) -> None:
    alone = scripted(tmp_path, "", "board_game")
    assert "--seat second=@oracle" in alone.refused()
    for players in (("-a", "human"), ("--seat", "first=@human", "--seat", "second=@human")):
        assert "--seat second=@oracle" in hub("run", "board_game", *players).refused()
    typed = "move b2\nmove a1\nmove c3\n"
    done = scripted(tmp_path, typed, "board_game", "--set", "game=tic_tac_toe", "--seat", "second=@oracle", "--json")
    assert done.json["outcome"] == "scored", done.err
    assert {turn.agent for turn in played(tmp_path).turns} == {"first", "second"}
