"""The code environment over small files, and over HumanEval."""

import ast
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Public, SandboxProvider, Secret, Submission, Task, VerifierError
from rollouthub.errors import ConfigError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.hosting.local.host import source_digest
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import assistant
from rollouthub_servers import table_config
from rollouthub_servers.code import Code, CodeConfig, CodeSecret
from rollouthub_servers.code.programs import CANDIDATE, EXAMINER, command

ROW = {
    "task_id": "T/0",
    "prompt": 'import math\n\n\ndef area(radius: float) -> float:\n    """Of a circle."""\n',
    "entry_point": "area",
    "canonical_solution": "    return math.pi * radius ** 2\n",
    "test": "def check(candidate):\n    assert abs(candidate(2.0) - 12.56637) < 1e-4\n    assert candidate(0) == 0\n",
}
RIGHT = "def area(radius):\n    return math.pi * radius * radius\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For the whole module, as the sandboxes are."""
    return "asyncio"


@pytest.fixture(scope="module")
async def box(anyio_backend: str) -> AsyncGenerator[SandboxProvider]:
    async with open_provider("process") as provider:
        yield provider


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def task_of(**changes: Any) -> Task[Public, Secret]:
    row = {**ROW, **changes}
    secret = CodeSecret(
        answer=row["canonical_solution"], prompt=row["prompt"], test=row["test"], entry_point=row["entry_point"]
    )
    return Task(Public(id=row["task_id"], prompt=row["prompt"]), secret)


def environment(box: SandboxProvider | None = None, task: Task[Public, Secret] | None = None, **settings: Any) -> Code:
    world = Code(task or task_of(), CodeConfig(data="rows.jsonl", **settings), 0)
    world.sandboxes = box
    return world


def checking(test: str) -> Task[Public, Secret]:
    """A task with the function f and this one test."""
    return task_of(prompt="def f(*x, **k):\n", entry_point="f", test=f"def check(candidate):\n    {test}\n")


async def reward(box: SandboxProvider, task: Task[Public, Secret], answer: str) -> float:
    verdict = await environment(box, task).verify(Submission(answer=answer))
    assert verdict.passed == (verdict.reward == 1.0)
    return verdict.reward


def test_a_row_becomes_a_task_whose_public_half_has_neither_tests_nor_solution(tmp_path: Path) -> None:
    (task,) = Code.tasks(CodeConfig(data=write(tmp_path / "a.jsonl", ROW)), "test", 0)
    assert isinstance(task, Task)
    shown = task.public.model_dump_json()
    assert (task.id, "Of a circle" in shown, "12.56" in shown, "math.pi" in shown) == ("T/0", True, False, False)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"test": None}, "column 'test' must be text"),
        ({"test": "def check(candidate:"}, "column 'test' is not Python"),
        ({"test": "assert True"}, "defines no function check(candidate)"),
        ({"entry_point": "a b"}, "'entry_point' must name a function"),
        ({"canonical_solution": 7}, "'canonical_solution' must be text"),
        ({"prompt": ""}, "column 'prompt' must be text"),
    ],
)
def test_a_row_that_makes_no_task_is_named_by_file_and_line(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    data = write(tmp_path / "a.jsonl", ROW, {**ROW, "task_id": "T/1", **change})
    _, bad = Code.tasks(CodeConfig(data=data), "test", 0)
    assert isinstance(bad, BadRow)
    assert str(bad.error).startswith(f"{data}:2: ")
    assert complaint in str(bad.error)


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    (bad,) = Code.tasks(CodeConfig(data=write(tmp_path / "a.jsonl", {"prompt": "def f(): ..."})), "test", 0)
    assert isinstance(bad, BadRow)
    assert "missing column 'test'; the columns are: prompt" in str(bad.error)


def test_data_must_be_named() -> None:
    with pytest.raises(ConfigError, match="--set data=PATH"):
        InProcessHost("code", Code)


async def test_a_right_answer_passes_and_a_wrong_one_fails_with_the_test_it_failed(box: SandboxProvider) -> None:
    assert await reward(box, task_of(), RIGHT) == 1.0
    verdict = await environment(box).verify(Submission(answer=RIGHT.replace("return", "return 1 +")))
    assert verdict.reward == 0.0
    assert verdict.feedback is not None
    assert verdict.feedback.startswith("assert abs(candidate(2.0) - 12.56637) < 1e-4: AssertionError")


@pytest.mark.parametrize(
    "answer", ["", "I cannot.", "def area(radius): return", "def area(", "x" * 100_000, "\0", "\ud800"]
)
async def test_what_is_no_program_is_worth_nothing(box: SandboxProvider, answer: str) -> None:
    assert await reward(box, task_of(), answer) == 0.0


@pytest.mark.parametrize(
    ("test", "function"),
    [
        ("assert candidate(float('nan')) != candidate(float('nan'))", "lambda x: x"),
        ("assert candidate(float('inf')) == -float('inf')", "lambda x: -x"),
        ("assert candidate(10**400) == 10**400 + 1", "lambda x: x + 1"),
        ("assert candidate((1, [2], {3: {4}})) == (1, [2], {3: {4}})", "lambda x: x"),
        ("assert type(candidate()) is tuple", "lambda: (1,)"),
        ("assert candidate() == {(1, 2): frozenset([3])}", "lambda: {(1, 2): frozenset([3])}"),
        ("assert candidate(b'\\x00a') == b'a\\x00'", "lambda x: x[::-1]"),
        ("assert candidate(1j) == -1", "lambda x: x * x"),
        ("assert list(candidate(3)) == [0, 1, 2] and candidate(3) != [0, 1, 2]", "lambda n: (i for i in range(n))"),
        ("assert candidate(3) == range(3)", "lambda n: range(n)"),
        ("assert candidate(x=1, y=2) == 3", "lambda x, y: x + y"),
        ("assert candidate('\\ud800ü') == '\\ud800ü'", "lambda x: x"),
        ("assert candidate() is None and candidate() is not False", "lambda: None"),
        ("assert candidate(True) is True", "lambda x: x"),
        ("assert candidate() == {'a': 2}", "lambda: __import__('collections').Counter('aa')"),
        ("assert len(candidate(500_000)) == 500_000", "lambda n: 'x' * n"),
    ],
)
async def test_values_pass_between_the_tests_and_the_function(box: SandboxProvider, test: str, function: str) -> None:
    assert await reward(box, checking(test), f"f = {function}") == 1.0


EXPECTS_AN_ERROR = "try: candidate()\n    except ValueError as error: assert str(error) == 'no'\n    else: assert False"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [("ValueError('no')", 1.0), ("TypeError('no')", 0.0), ("type('ValueError', (Exception,), {})('no')", 1.0)],
)
async def test_a_test_may_expect_an_error(box: SandboxProvider, raised: str, expected: float) -> None:
    assert await reward(box, checking(EXPECTS_AN_ERROR), f"def f():\n    raise {raised}") == expected


async def test_an_error_of_the_functions_own_kind_is_still_an_error(box: SandboxProvider) -> None:
    test = "try: candidate()\n    except Exception as error: assert type(error).__name__ == 'Odd'"
    assert await reward(box, checking(test), "class Odd(Exception): pass\ndef f(): raise Odd") == 1.0


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        ("candidate(lambda: 1)", "a test passes a function"),
        ("undefined_name", "failed before they called the function: undefined_name: NameError"),
        ("pass", "the tests never called the function"),
    ],
)
async def test_tests_that_cannot_be_run_are_the_verifiers_fault(
    box: SandboxProvider, test: str, complaint: str
) -> None:
    with pytest.raises(VerifierError, match=complaint):
        await environment(box, checking(test)).verify(Submission(answer="def f(*x): return 1"))


async def test_a_prompt_that_is_no_python_is_the_verifiers_fault(box: SandboxProvider) -> None:
    with pytest.raises(VerifierError, match="cannot be loaded: SyntaxError"):
        await environment(box, task_of(prompt="def area(:")).verify(Submission(answer=RIGHT))


async def test_a_program_of_the_agents_runs_and_is_told_of(box: SandboxProvider) -> None:
    world = environment(box)
    assert await world.run_python("print(6 * 7)") == "42\n[exit status 0]"
    said = await world.run_python("1 / 0")
    assert said.startswith("Traceback (most recent call last):\n")
    assert 'main.py", line 1, in <module>\n    1 / 0\n' in said
    assert said.endswith("ZeroDivisionError: division by zero\n[exit status 1]")
    assert await world.run_python("x = 1") == "[exit status 0]"
    assert "NameError" in await world.run_python("print(x)")


async def test_nothing_is_left_from_the_call_before(box: SandboxProvider) -> None:
    world = environment(box)
    leave = (  # beside its file and in its temporary folder, which is the machine's where there are no namespaces
        "import os, tempfile, time\nopen('left', 'w').write('here')\n"
        "left = tempfile.gettempdir() + '/left'\nwas = os.path.exists(left)\nopen(left, 'w').write('here')\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
        "print(sorted(os.listdir()), was)"
    )
    for _ in range(2):
        assert await world.run_python(leave) == "['left', 'main.py'] False\n[exit status 0]"
    assert await world.run_python("import os; print(os.listdir())") == "['main.py']\n[exit status 0]"


async def test_limits_are_told_to_the_agent(box: SandboxProvider) -> None:
    world = environment(box, run_seconds=1.0, output_bytes=200)
    said = await world.run_python("print('so far')\nwhile True: pass")
    assert re.fullmatch(r"so far\n\[stopped after (1 seconds of CPU time|6 seconds)\]", said), said
    assert "bytes dropped" in await world.run_python("print('x' * 1000)")
    assert "MemoryError" in await world.run_python("x = bytearray(3 << 30)")


async def test_what_no_file_can_hold_is_told_to_the_agent(box: SandboxProvider) -> None:
    world = environment(box)
    assert "SyntaxError" in await world.run_python("\ud800")
    # Python before 3.11.4 takes a null byte in a file for the file's end.
    minds_null = (await world.run_python("import sys; print(sys.version_info >= (3, 11, 4))")).startswith("True")
    assert ("null bytes" if minds_null else "[exit status 0]") in await world.run_python("\0")


@pytest.mark.parametrize("files", [CANDIDATE, EXAMINER])
def test_what_runs_in_a_sandbox_is_python_of_any_version_there(files: tuple[str, ...]) -> None:
    ast.parse(command(files)[-1], feature_version=(3, 9))


def test_what_reads_the_rows_is_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest(Code)
    changed = tmp_path / "table.py"
    changed.write_text(Path(table_config.__file__).read_text() + "\n")
    monkeypatch.setattr(table_config, "__file__", str(changed))
    assert source_digest(Code) != before


async def test_a_hosted_episode_runs_code_submits_and_says_where(tmp_path: Path) -> None:
    config = CodeConfig(data=write(tmp_path / "a.jsonl", ROW), sandbox="process")
    async with open_in_process("code", Code, config) as host:
        card = await host.find_task("test", "T/0", 0)
        assert host.info.scores_transcripts
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            assert [tool.name for tool in episode.seats["agent"].tools] == ["run_python", "get_task", "submit"]
            result = await episode.seats["agent"].call_tool("run_python", {"code": "print(1)"})
            assert "exit status 0" in result.model_dump_json()
            await episode.seats["agent"].call_tool("submit", {"answer": f"```python\n{RIGHT}```"})
            assert (await episode.verify(Submission(answer=episode.answer))).reward == 1.0
            assert [ref.provider for ref in episode.sandboxes] == ["process"]


def real(folder: Path) -> list[Task[Public, Secret]]:
    tasks = list(Code.tasks(CodeConfig(data=str(folder / "humaneval" / "HumanEval.jsonl.gz")), "test", 0))
    return [task for task in tasks if isinstance(task, Task)]


async def passing(box: SandboxProvider, tasks: list[tuple[Task[Public, Secret], Submission]]) -> set[str]:
    passed: set[str] = set()

    async def play(task: Task[Public, Secret], submission: Submission) -> None:
        if (await environment(box, task).verify(submission)).reward == 1.0:
            passed.add(task.id)

    async with anyio.create_task_group() as group:
        for task, submission in tasks:
            group.start_soon(play, task, submission)
    return passed


@pytest.mark.soak
async def test_every_canonical_solution_passes_and_none_that_returns_none(
    box: SandboxProvider, real_data: Path
) -> None:
    tasks = real(real_data)
    assert len(tasks) == 164
    references = [(task, Submission(transcript=tuple(environment(None, task).reference()))) for task in tasks]
    assert await passing(box, references) == {task.id for task in tasks}
    nothing = [
        (task, Submission(transcript=(assistant(f"```python\n{task.secret.prompt}    return None\n```"),)))
        for task in tasks
        if isinstance(task.secret, CodeSecret)
    ]
    assert len(nothing) == 164
    assert await passing(box, nothing) == set()


async def test_bodies_alone_pass_as_well_as_whole_functions(box: SandboxProvider, real_data: Path) -> None:
    tasks = real(real_data)[:40]
    assert await passing(box, [(task, Submission(answer=str(task.secret.answer))) for task in tasks]) == {
        task.id for task in tasks
    }
