import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from rollouthub import VerifierError
from rollouthub_servers.math.checker import MAX_WORKERS, AnswerVerdict, check, close_workers

TOWER = "9^{9^{9}}"
NEST = "{" * 1000 + "42" + "}" * 1000


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    yield
    close_workers()


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """The kernel tells nobody when a process of somebody else's changes; so this looks, and gives up in the end."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def busy_child() -> psutil.Process | None:
    found = (child for child in checkers() if not child.children() and child.cpu_times().user > 0.1)
    return next(found, None)


def is_checker(process: psutil.Process) -> bool:
    try:
        return "rollouthub_servers.math.worker" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


def checkers(parent: int | None = None) -> list[psutil.Process]:
    return [process for process in psutil.Process(parent).children(recursive=True) if is_checker(process)]


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("42", "42.0"),
        ("1/3", r"\frac{1}{3}"),
        ("1/3", "0.333333"),
        ("0.5", r"50\%"),
        ("(x+1)^2", "x^2+2x+1"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        ("1,-2", r"\{-2, 1\}"),
        ("(3,4]", r"\left(3, 4\right]"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"\text{(C)}", "C"),
        (r"\$32,\!348", "32348"),
        (r"864 \mbox{ inches}^2", "864"),
        ("4.5e33", r"4.5 \times 10^{33}"),
        (r"8.224 \times 10^{-19}", "8.224e-19"),
        ("58,500", "58500"),
        ("E_{1},E_{2}", "E_2, E_1"),
        ("x=5", "5"),
        (r"4.4677 \times 10^{14} Hz", r"4.4677 \times 10^{14} \text{ Hz}"),
        (r"\frac{dx}{dt} = kx - a", r"\frac{dx}{dt} - k x = -a"),
        ("4210_{5}", "4210_5"),
        ("4210_{5}", "4210"),
        (r"15\mbox{ cm}^2", r"15 \text{ cm}^{2}"),
        (r"15\mbox{ cm}^2", "15"),
    ],
)
async def test_the_same_answer_written_otherwise_is_right(reference: str, answer: str) -> None:
    assert (await check([reference], answer)).correct


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("42", "43"),
        ("(3,4)", "(4,3)"),
        ("(3,4]", "(3,4)"),
        (r"\text{Evelyn}", "Briana"),
        (r"8.224 \times 10^{-19}", "0.0"),
        (r"8.224 \times 10^{-19}", r"3 \times 10^{-19}"),
        ("0.0000672", "0.0000673"),
        ("42", "x+42"),
        ("42", r"\frac{1}{0}"),
        ("42", r"\frac{"),
        ("42", "import os"),
        ("x^2", "x^3"),
        (r"\hbar \omega(v+1 / 2)-\frac{E_{0}^{2} e^{2}}{2 m \omega^{2}}", "2"),
        (r"m_{p} c^{2}(\gamma^{2}-1) \sin ^{2} \theta", r"m_{p} c^{2}(\gamma^{2}+1) \sin ^{2} \theta"),
        (r"\frac{1}{b-a}\left(e^{-at}-e^{-bt}\right)", r"-8-8\sqrt{3}i"),
        (r"\frac{dx}{dt} = k x^{2}", r"\frac{dx}{dt} = k x^{3}"),  # both hold where x is 0
        (r"\frac{d^2y}{dx^2} + 4y = 0", r"\frac{dy}{dx} + 4y = 0"),
        ("4210_{5}", "4210_{6}"),
        (r"15\mbox{ cm}^2", r"15\mbox{ cm}^3"),
    ],
)
async def test_another_answer_is_wrong(reference: str, answer: str) -> None:
    assert not (await check([reference], answer)).correct


async def test_any_of_several_references_will_do() -> None:
    assert (await check(["0.01", "0.02"], "0.02")).correct
    assert not (await check(["0.01", "0.02"], "0.03")).correct


@pytest.mark.parametrize("answer", [TOWER, "(9^{9^{7}})!", "10^{10^{10}}-10^{10^{10}}+42", NEST])
async def test_an_answer_that_costs_too_much_is_wrong_and_says_so(answer: str) -> None:
    assert await check(["42"], answer, cpu_seconds=0.5) == AnswerVerdict(correct=False, too_complex=True)


async def test_checking_goes_on_after_an_answer_that_killed_its_checker() -> None:
    await check(["42"], TOWER, cpu_seconds=0.2)
    assert (await check(["42"], "42")).correct


async def test_a_reference_that_costs_too_much_is_the_verifiers_fault() -> None:
    with pytest.raises(VerifierError, match="reading the reference answer took over") as failure:
        await check([NEST], "42", cpu_seconds=0.2)
    assert not failure.value.retryable


async def test_a_reference_that_cannot_be_read_is_the_verifiers_fault_unless_the_answer_is_the_same_text() -> None:
    reference = r"\frac{1}{ \alpha_1 \to ??"
    assert (await check([reference], reference)).correct
    with pytest.raises(VerifierError, match="no mathematics the checker can read") as failure:
        await check([reference], "42")
    assert not failure.value.retryable


async def test_a_checker_that_is_killed_is_the_verifiers_fault_and_worth_another_try() -> None:
    close_workers()
    await check(["1"], "1")  # so that the child there is to find is already waiting for work
    failures: list[VerifierError] = []

    async def check_tower() -> None:
        try:
            await check(["42"], TOWER, cpu_seconds=60)
        except VerifierError as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(check_tower)
        await until(busy_child, seconds=60)
        child = busy_child()
        assert child is not None
        child.send_signal(signal.SIGSEGV)
    assert "died with exit code -11" in str(failures[0])
    assert failures[0].retryable


async def test_a_checker_that_died_while_idle_is_replaced() -> None:
    await check(["1"], "1")
    idle = checkers()
    for process in idle:
        process.kill()
    await until(lambda: not any(map(is_checker, idle)))
    assert (await check(["42"], "42")).correct


async def test_a_checkers_child_that_died_while_idle_is_not_mistaken_for_an_answer() -> None:
    close_workers()
    await check(["1"], "1")
    (child,) = [process for process in checkers() if not process.children()]
    loader = child.parent()
    assert loader is not None
    child.send_signal(signal.SIGPROF)
    await until(lambda: loader.children() not in ([], [child]))
    assert (await check(["42"], "42")).correct


async def test_a_checker_that_hangs_is_ended_at_its_deadline() -> None:
    with pytest.raises(VerifierError, match=r"none within 0\.5 s") as failure:
        await check(["42"], TOWER, cpu_seconds=60, wall_seconds=0.5)
    assert failure.value.retryable
    assert (await check(["42"], "42")).correct


async def test_a_cancelled_check_leaves_no_process_behind() -> None:
    close_workers()
    with anyio.move_on_after(1.5) as scope:
        await check(["42"], TOWER, cpu_seconds=60)
    assert scope.cancelled_caught
    await until(lambda: not checkers())


async def test_many_checks_share_few_processes() -> None:
    close_workers()
    wrong: list[int] = []

    async def one(number: int) -> None:
        if not (await check([str(number)], f"{number}.0")).correct:
            wrong.append(number)

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(one, number)
    assert not wrong
    assert len(checkers()) <= 2 * MAX_WORKERS  # a loader and its child each


def test_checkers_do_not_outlive_a_killed_hub(tmp_path: Path) -> None:
    script = tmp_path / "hub.py"
    # Unguarded on purpose: a checker must not run the caller's script again.
    script.write_text(
        "import anyio, os\n"
        "from rollouthub_servers.math.checker import check\n"
        "anyio.run(lambda: check(['1'], '1'))\n"
        "print(os.getpid(), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as hub:
        assert hub.stdout is not None
        pid = int(hub.stdout.readline())
        orphans = checkers(pid)
        assert len(orphans) == 2
        os.kill(pid, signal.SIGKILL)
        hub.wait()
        _, alive = psutil.wait_procs(orphans, timeout=30)
        assert not alive


def test_the_environment_is_light_to_import() -> None:
    heavy = "{'sympy', 'math_verify', 'pyarrow', 'datasets'}"
    subprocess.run(
        [sys.executable, "-c", f"import sys, rollouthub_servers.math; assert not {heavy} & set(sys.modules)"],
        check=True,
    )
