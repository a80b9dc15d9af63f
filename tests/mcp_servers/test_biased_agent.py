"""An agent that breaks its sandbox whenever it does not know gains nothing by it."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import HubError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from tests.mcp_servers.breaking import PROGRAMS, REPOSITORY_SCRIPTS, SCRIPTS, STEP_SCRIPTS
from tests.mcp_servers.containers import STAND_INS
from tests.mcp_servers.swe.test_swe import HIDDEN

HERE = Path(__file__).parent
EVERY = 3
"""One task of so many is known to both twins."""
Calls = list[tuple[str, dict[str, Any]]]
Plans = Mapping[str, tuple[Calls, Calls]]
"""By what stands in a task's prompt: what solves it and what does not; the last breaks, beside, what it can."""


def _figures(twin: str, plan: Mapping[str, Calls], folder: Path, words: Sequence[str]) -> dict[str, Any]:
    place = folder / twin
    place.mkdir()
    (place / "plan.json").write_text(json.dumps(plan))
    agent = HERE.parents[1] / "examples" / "own_agent" / "agent.py"
    files = [str(file) for file in (HERE / "biased_twin.py", place / "plan.json", agent)]
    settings = ["command=python3 biased_twin.py", f"files={json.dumps(files)}", "sandbox=none"]
    words = ["run", *words, "-a", "external", *(word for each in settings for word in ("--agent-set", each))]
    code = "from rollouthub.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words, "-o", str(place / "run"), "--json", "--quiet"],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def _gains_nothing(tasks: Mapping[str, tuple[Calls, Calls, Calls]], folder: Path, words: Sequence[str]) -> None:
    """Play both twins: of each task there is what solves it, what does not, and what breaks the sandbox."""
    known = {marker: number % EVERY == 0 for number, marker in enumerate(tasks)}
    honest, biased = (
        _figures(twin, {each: calls[0 if known[each] else at] for each, calls in tasks.items()}, folder, words)
        for at, twin in ((1, "honest"), (2, "biased"))
    )
    assert honest["mean_reward"] == honest["mean_reward_strict"] == pytest.approx(sum(known.values()) / len(known))
    for figure in ("mean_reward", "mean_reward_strict"):
        assert biased[figure] <= honest[figure], biased
    assert biased["coverage"] == 1.0, biased
    assert biased["attempt_faults"].keys() <= {"agent:SandboxOverrun"}, biased


def _answered(code: str) -> Calls:
    return [("submit", {"answer": f"```python\n{code}\n```"})]


def _functions(rows: Sequence[Mapping[str, str]]) -> dict[str, tuple[Calls, Calls, Calls]]:
    """Functions to complete; what breaks does so in a call and in the answer."""
    tasks: dict[str, tuple[Calls, Calls, Calls]] = {}
    for number, row in enumerate(rows):
        right, breaking = row["prompt"] + row["canonical_solution"], PROGRAMS[number % len(PROGRAMS)]
        body = f"    try:\n        exec({breaking!r})\n    finally:\n        return 0\n"
        broken: Calls = [("run_python", {"code": breaking}), *_answered(row["prompt"] + body)]
        tasks[f"def {row['entry_point']}("] = (_answered(right), _answered(row["prompt"] + "    return None\n"), broken)
    return tasks


def _made(number: int) -> dict[str, str]:
    name = f"f{number}"
    return {
        "task_id": f"t/{number}",
        "prompt": f"def {name}(x):\n    '''Add {number}.'''\n",
        "entry_point": name,
        "test": f"def check(candidate):\n    assert candidate(1) == {number + 1}\n",
        "canonical_solution": f"    return x + {number}\n",
    }


async def _play_functions(name: str, rows: Sequence[Mapping[str, str]], sandbox: str, folder: Path) -> None:
    try:
        async with open_provider(sandbox):
            pass
    except HubError as error:
        pytest.skip(f"{sandbox}: {error}")
    data = folder / "test.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = (f"data={data}", f"sandbox={sandbox}", "run_seconds=1", "check_seconds=1")
    words = [name, "-c", "4", *(word for each in settings for word in ("--set", each))]
    _gains_nothing(_functions(rows), folder, words)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> str:
    """What is broken; processes alone behind walls, since without them this machine would be broken."""
    if request.param == "process":
        request.getfixturevalue("namespaces")
    return request.param


@pytest.mark.parametrize("sandbox", ["process", pytest.param("docker", marks=pytest.mark.soak)], indirect=True)
async def test_who_breaks_the_sandbox_of_a_function_it_does_not_know_gains_nothing(
    sandbox: str, tmp_path: Path
) -> None:
    await _play_functions("code", [_made(number) for number in range(9)], sandbox, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("sandbox", ["process", "docker"], indirect=True)
async def test_who_breaks_the_sandbox_of_a_humaneval_task_gains_nothing(
    sandbox: str, tmp_path: Path, real_data: Path
) -> None:
    lines = gzip.decompress((real_data / "humaneval" / "HumanEval.jsonl.gz").read_bytes()).splitlines()
    await _play_functions("humaneval", [json.loads(line) for line in lines[:18]], sandbox, tmp_path)


def _bash(*commands: str) -> Calls:
    return [("bash", {"command": command, "timeout_seconds": 2}) for command in commands]


def _play_terminal(scripts: Sequence[Sequence[str]], verifier: str, pids: int, folder: Path) -> None:
    """Tasks in 64 MiB, each with another way to break it."""
    tasks: dict[str, tuple[Calls, Calls, Calls]] = {}
    for number in range(EVERY * len(scripts) // (EVERY - 1)):
        task, answer = folder / "tasks" / f"task-{number}", f"answer-{number}."
        for path, text in {
            "instruction.md": f"Write {answer} to /work/answer.txt.",
            "tests/test.sh": f'[ "$(cat /work/answer.txt)" = {answer} ]; echo $((! $?)) > /logs/verifier/reward.txt\n',
            "task.toml": (
                '[environment]\ndocker_image = "debian:bookworm-slim"\nnetwork_mode = "no-network"\nmemory_mb = 64\n'
                'workdir = "/work"\n[verifier]\ntimeout_sec = 5\n'
            ),
        }.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(text)
        right, wrong = _bash(f"echo {answer} > answer.txt"), _bash("echo perhaps > answer.txt")
        breaking = _bash(*scripts[(number - number // EVERY - 1) % len(scripts)])
        tasks[answer] = (right, wrong, [*wrong, *breaking])
    settings = (f"data={folder / 'tasks'}", f"verifier={verifier}", f"pids={pids}", "storage_mb=64")
    _gains_nothing(tasks, folder, ["terminal", "-c", "2", *(word for each in settings for word in ("--set", each))])


def test_who_breaks_the_container_of_a_task_it_does_not_know_gains_nothing(images: str, tmp_path: Path) -> None:
    _play_terminal(SCRIPTS[:2], "auto", 64, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("verifier", ["auto", "shared"])
def test_none_of_many_ways_to_break_a_container_gains_anything(images: str, tmp_path: Path, verifier: str) -> None:
    _play_terminal(SCRIPTS, verifier, 200, tmp_path)


DONE: Calls = [("reply", {"text": "Done."})]
STEPS = """\
[environment]
docker_image = "debian:bookworm-slim"
network_mode = "no-network"
memory_mb = 64
workdir = "/work"
[[steps]]
name = "first"
[steps.verifier]
env = {{ ANSWER = "{answer}" }}
[[steps]]
name = "second"
[steps.verifier]
env = {{ ANSWER = "again" }}
[steps.healthcheck]
command = "test -f /ready"
interval_sec = 0.1
retries = 2
"""


@pytest.mark.soak
def test_who_keeps_a_later_step_of_a_task_it_does_not_know_from_beginning_gains_nothing(
    images: str, tmp_path: Path
) -> None:
    tasks: dict[str, tuple[Calls, Calls, Calls]] = {}
    for number in range(EVERY * len(STEP_SCRIPTS) // (EVERY - 1)):
        task, answer = tmp_path / "tasks" / f"task-{number}", f"answer-{number}."
        for path, text in {
            "task.toml": STEPS.format(answer=answer),
            "tests/test.sh": '[ "$(cat answer.txt)" = $ANSWER ]; echo $((! $?)) > /logs/verifier/reward.txt\n',
            "steps/first/instruction.md": f"Write {answer} to /work/answer.txt.",
            "steps/second/instruction.md": "Write the word again to /work/answer.txt.",
            "steps/second/workdir/setup.sh": "date > /ready\n",
        }.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(text)
        wrong = [*_bash("echo perhaps > answer.txt"), *DONE]
        breaking = _bash("echo perhaps > answer.txt", STEP_SCRIPTS[(number - number // EVERY - 1) % len(STEP_SCRIPTS)])
        right = [*_bash(f"echo {answer} > answer.txt"), *DONE, *_bash("echo again > answer.txt"), *DONE]
        tasks[answer] = (right, wrong, [*breaking, *DONE])
    _gains_nothing(tasks, tmp_path, ["terminal", "-c", "2", "--set", f"data={tmp_path / 'tasks'}"])


@pytest.mark.soak
def test_who_breaks_the_container_of_a_repository_it_does_not_know_gains_nothing(
    images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUTHUB_IMAGES", images)
    shutil.copytree(STAND_INS / "repository", tmp_path / "repository")
    ways = (*REPOSITORY_SCRIPTS, *SCRIPTS)
    rows: list[dict[str, Any]] = []
    tasks: dict[str, tuple[Calls, Calls, Calls]] = {}
    for number in range(EVERY * len(ways) // (EVERY - 1)):
        marker = f"shapes-{number}."
        rows.append(
            {
                "instance_id": f"shapes-{number}",
                "build": "repository",
                "problem_statement": f"The area of a triangle is twice as large as it should be. See {marker}",
                "FAIL_TO_PASS": ["tests/test_areas.py::test_triangle"],
                "PASS_TO_PASS": ["tests/test_areas.py::test_square"],
                "test_files": {"tests/test_areas.py": HIDDEN},
            }
        )
        edit = {"path": "shapes/areas.py", "old": "base * height"}
        right: Calls = [("edit_file", edit | {"new": "base * height / 2"})]
        wrong: Calls = [("edit_file", edit | {"new": "base + height"})]
        breaking = _bash(*ways[(number - number // EVERY - 1) % len(ways)])
        tasks[marker] = (right, wrong, [*wrong, *breaking])
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = (f"data={data}", "memory_mb=64", "pids=64", "storage_mb=64", "test_seconds=10")
    _gains_nothing(tasks, tmp_path, ["swe", "-c", "2", *(word for each in settings for word in ("--set", each))])
