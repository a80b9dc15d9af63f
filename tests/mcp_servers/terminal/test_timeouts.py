"""The deadlines that tasks need, from their own timeouts."""

from pathlib import Path

from rollouthub import Deadlines
from rollouthub_servers.terminal.harbor import load_task
from rollouthub_servers.terminal.timeouts import (
    AROUND_AGENT,
    AROUND_CALL,
    AROUND_IMAGE,
    AROUND_TESTS,
    MOST_RUNS,
    SETUP_SECONDS,
    deadlines_of,
)


def write(folder: Path, text: str, *steps: str) -> Path:
    folder.mkdir()
    (folder / "task.toml").write_text(text)
    (folder / "instruction.md").write_text("Do it.")
    for step in steps:
        (folder / "steps" / step).mkdir(parents=True)
        (folder / "steps" / step / "instruction.md").write_text("Do it.")
    return folder


def test_the_slowest_task_decides_and_nothing_gets_shorter(tmp_path: Path) -> None:
    quick = load_task("quick", write(tmp_path / "quick", 'version = "1.0"\n[verifier]\ntimeout_sec = 5\n'))
    slow = load_task(
        "slow",
        write(tmp_path / "slow", 'version = "1.0"\n[agent]\ntimeout_sec = 9000\n[verifier]\ntimeout_sec = 1800\n'),
    )
    assert deadlines_of([quick]).tool_call >= Deadlines().tool_call
    assert deadlines_of([quick]).verify >= Deadlines().verify
    found = deadlines_of([quick, slow])
    assert found.verify == (MOST_RUNS + 1) * 1800 + AROUND_TESTS + AROUND_IMAGE
    assert found.agent == 9000 + AROUND_AGENT
    assert found.tool_call == 9000 + AROUND_CALL, "a known solution is one call"
    assert found.episode > found.agent + found.verify


def test_a_call_that_ends_a_step_has_the_time_of_its_tests(tmp_path: Path) -> None:
    step = '[[steps]]\nname = "{}"\n[steps.agent]\ntimeout_sec = 5\n[steps.verifier]\ntimeout_sec = 700\n'
    text = 'version = "1.0"\n' + step.format("a") + step.format("b")
    found = deadlines_of([load_task("steps", write(tmp_path / "steps", text, "a", "b"))])
    graded = (MOST_RUNS + 1) * 700 + AROUND_TESTS + AROUND_IMAGE
    assert found.tool_call == graded

    setup = tmp_path / "steps" / "steps" / "b" / "workdir" / "setup.sh"
    setup.parent.mkdir()
    setup.touch()
    found = deadlines_of([load_task("steps", tmp_path / "steps")])
    assert found.tool_call >= graded + 3 * SETUP_SECONDS, "in the agent's container, and twice in an untouched one"
