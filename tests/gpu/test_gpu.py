"""The measurement of GPUs, without any: bad usage, failing parts, the page, and that no process is left."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.gpu.__main__ import main
from tests.gpu.engines import Engines
from tests.gpu.gpu_watch import gpu_facts, gpu_load, used_gb
from tests.gpu.lab import CPU, Lab
from tests.gpu.mock_vllm import MODEL_VARIABLE
from tests.gpu.page import section, table, write
from tests.gpu.parts import PARTS, Part
from tests.gpu.programs import running
from tests.gpu.rows import Missing, Row, at_least, at_most, measured
from tests.gpu.runner import CLOSING_SECONDS, measure_parts

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120


def program(path: Path, *lines: str) -> Path:
    """A shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A mock of vLLM's program, in an environment that says it is a build for CPUs."""
    (tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "vllm-0.0.0+cpu.dist-info").mkdir(parents=True)
    path = os.pathsep.join(filter(None, (str(ROOT), *sys.path)))
    command = f'exec {sys.executable} -m tests.gpu.mock_vllm "$@"'
    return program(tmp_path / "env" / "bin" / "vllm", "unset PYTHONSAFEPATH", f"export PYTHONPATH='{path}'", command)


def made(folder: Path) -> None:
    """Models that were made before."""
    for seed in (0, 1):
        model = folder / f"made-tiny-{seed}"
        model.mkdir(parents=True)
        (model / "weights.txt").write_text("1000000")


def lab(folder: Path) -> Lab:
    """A lab whose parts start nothing."""
    return Lab(Engines("policy", None, is_cpu=True, logs=folder), CPU, folder, folder / "runs")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cpu", "--only", "nope"], "no part is called 'nope'; there are: load, drift"),
        (["--cpu", "--only", "load-given"], "name its folder with --model"),
        (["--engine", "policy"], "give --cpu, too"),
        (["--cpu", "--write", "--only", "load"], "leave out --only"),
        (["--cpu", "--write", "--quick"], "leave out --quick"),
        (["--cpu", "--minutes", "0.5"], "--minutes 0.5: from 1 to 1440"),
        (["--cpu", "--minutes", "nan"], "--minutes nan: from 1 to 1440"),
        (["--cpu", "--model", "absent"], "'absent' is no folder with a model"),
        (["--cpu", "--json", "absent/figures.json"], "--json 'absent/figures.json' is a folder, or lies in none"),
        (["--cpu", "--json", "."], "--json '.' is a folder, or lies in none"),
        (["--cpu", "-o", "/dev/null"], "--output '/dev/null' is no folder"),
        (["--cpu", "-o", "/dev/null/below"], "--output '/dev/null/below' cannot be made: Not a directory"),
        (["--cpu", "--vllm", "/absent/vllm"], "'/absent/vllm' is no program"),
        (["--cpu", "--page", "absent.md"], "'absent.md': there is no such file"),
        ([], "no NVIDIA GPU answers here (nvidia-smi): give --cpu"),
    ],
)
def test_bad_usage_ends_with_2_before_anything_is_started(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_cpu_refuses_a_vllm_that_is_no_build_for_cpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lib" / "python3.11" / "site-packages" / "vllm-0.32.0.dist-info").mkdir(parents=True)
    found = program(tmp_path / "bin" / "vllm", "exit 1")
    with pytest.raises(SystemExit):
        main(["--cpu", "--vllm", str(found.with_name("python3")), "-o", str(tmp_path / "out")])
    assert f"{found} is no build for CPUs" in capsys.readouterr().err


def test_the_parts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [part.name for part in PARTS]


async def test_a_part_that_fails_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    async def broken(lab: Lab) -> None:
        lab.add(measured(lab.part, "before", 1.0))
        raise ValueError("out of order")

    async def missing(lab: Lab) -> None:
        raise Missing("no such thing")

    async def endless(lab: Lab) -> None:
        await anyio.sleep_forever()

    async def sound(lab: Lab) -> None:
        lab.add(at_least(lab.part, "speed", 98, 97, "%"))

    found = lab(tmp_path)
    with anyio.fail_after(PATIENCE_SECONDS):
        await measure_parts(found, [part("a", broken), part("b", missing), part("c", endless), part("d", sound)], 60)
    assert [(row.part, row.verdict) for row in found.rows] == [
        ("a", "measured"),
        ("a", "failed"),
        ("b", "not tried"),
        ("c", "failed"),
        ("d", "passed"),
    ]
    assert "ValueError: out of order" in found.rows[1].note
    assert "Traceback" in (tmp_path / "a.log").read_text()
    assert found.rows[2].note == "no such thing"
    assert found.rows[3].note == "ended after 0 s, before it was over"


async def test_what_the_minutes_do_not_reach_is_said(tmp_path: Path) -> None:
    async def sound(lab: Lab) -> None:
        lab.add(measured(lab.part, "speed", 1.0))

    found = lab(tmp_path)
    parts = [part("long", sound, least=50), part("short", sound)]
    await measure_parts(found, parts, CLOSING_SECONDS + 40)
    assert [(row.part, row.verdict) for row in found.rows] == [("long", "not tried"), ("short", "measured")]
    assert "not reached: 40 s were left, it needs 50" in found.rows[0].note


def part(name: str, measure: Callable[[Lab], Awaitable[None]], least: float = 0.0) -> Part:
    """A part that may take a tenth of a second."""
    return Part(name, name, measure, 0.1, least)


def test_bars_are_reached_or_missed() -> None:
    assert [at_least("p", "n", value, 97).verdict for value in (97, 96.9)] == ["passed", "missed"]
    assert [at_most("p", "n", value, 0.02).verdict for value in (0.02, 0.021)] == ["passed", "missed"]
    assert at_least("p", "n", float("nan"), 1).verdict == "missed"
    assert at_most("p", "n", float("inf"), 1).verdict == "missed"


def test_a_table_of_one_device_leaves_the_others_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "gpu.md"
    page.write_text(
        "<!-- gpu-figures -->\nold\n<!-- /gpu-figures -->\n<!-- cpu-figures -->\nold\n<!-- /cpu-figures -->\n"
    )
    rows = [Row("load", "share", "missed", 91.23, "%", "≥ 97")]
    write(page, "cpu", section(rows, {"device": "a CPU"}))
    text = page.read_text()
    assert "<!-- gpu-figures -->\nold\n" in text
    assert "| load | share | 91.2 % | ≥ 97 | missed |" in text
    assert "- device: a CPU" in text
    write(page, "cpu", section([], {}))
    assert "91.2" not in page.read_text()
    with pytest.raises(ValueError, match="0 pairs"):
        write(page, "tpu", "")


def test_what_servers_say_cannot_break_the_table() -> None:
    row = Row("p", "n", "failed", note="a | b\n| c\x1b[31m <script>\u202ex")
    (_, _, line) = table([row]).splitlines()
    assert (
        line == "| p | n | – |  | failed: a \\| b \\| c [31m &lt;script>   x |".replace("   x", " x")
        or "\x1b" not in line
    )
    assert "<script>" not in line
    assert line.count(" | ") == 4


async def test_the_gpu_is_read_while_something_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    program(
        tmp_path / "nvidia-smi",
        'case "$*" in',
        f"*--loop-ms*) echo 90; echo 70; echo '[N/A]'; echo > {told}; exec sleep 1000;;",
        "*memory.used*) echo 2048;;",
        "*) echo 'NVIDIA H200, 570.1, 143360';;",
        "esac",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    facts = gpu_facts()
    assert facts is not None
    assert (facts.name, facts.driver, facts.memory_gb, used_gb()) == ("NVIDIA H200", "570.1", 140.0, 2.0)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with gpu_load() as load:
            await anyio.to_thread.run_sync(told.read_text)
    assert load.mean == 80


def test_a_gpu_that_does_not_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "nvidia-smi", "echo 'has failed because it could not communicate with the driver'; exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert gpu_facts() is None
    assert used_gb() is None


async def test_no_process_below_a_program_is_left(tmp_path: Path) -> None:
    script = program(tmp_path / "stubborn", "trap '' TERM", "setsid sleep 1000 &", "echo $!", "wait")
    with anyio.fail_after(PATIENCE_SECONDS), (tmp_path / "log").open("wb") as said:
        async with running(
            [str(script)],
            said,
            stdout=subprocess.PIPE,
            environment=os.environ,
            directory=tmp_path,
            grace_seconds=0.3,
        ) as run:
            assert run.stdout is not None
            below = int(await run.stdout.receive())
            os.kill(below, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(below, 0)


def test_parts_without_a_trainer_run_against_a_mock_of_vllm(vllm: Path, tmp_path: Path) -> None:
    made(tmp_path / "out")
    figures = tmp_path / "figures.json"
    options = ["--cpu", "--quick", "--vllm", str(vllm.with_name("python")), "--only", "load", "update", "sleep"]
    code = main([*options, "-o", str(tmp_path / "out"), "--json", str(figures)])
    told = json.loads(figures.read_text())
    rows = {(row["part"], row["name"]): row for row in told["rows"]}
    failed = {name: row["note"] for name, row in rows.items() if row["verdict"] == "failed"}
    assert list(failed) == [("sleep", "sleep and wake")], failed
    assert "has no /sleep" in failed["sleep", "sleep and wake"]  # the mock has none
    assert code == 1
    assert rows["load", "hub of bare loop, 8 in flight"]["value"] > 0
    assert rows["load", "unscored, 8 in flight"]["verdict"] == "passed"
    assert rows["update", "updates after which the server has the version"]["verdict"] == "passed"
    assert rows["update", "a probe's log-probability, other weights"]["verdict"] == "missed"  # a mock has no weights
    assert told["facts"]["engine"] == "vLLM 0.0.0+cpu"
    assert told["facts"]["command"] == "`python -m tests.gpu --cpu --quick --vllm python --only load update sleep`"
    assert told["ended_by"] is None


def test_ctrl_c_ends_all_and_tells_what_was_found(vllm: Path, tmp_path: Path) -> None:
    made(tmp_path / "out")
    command = [sys.executable, "-m", "tests.gpu", "--cpu", "--quick", "--vllm", str(vllm), "--only", "load"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *sys.path))),
        MODEL_VARIABLE: "mock/say?text=done&latency=1000",
    }
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "server up" in line:
                break
        below = _processes(tmp_path)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + signal.SIGINT, said
    assert "server up" in out
    assert below
    assert _processes(tmp_path) == []


def _processes(folder: Path) -> list[int]:
    """Processes whose command names a folder."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and int(place.parent.name) != os.getpid():
            found.append(int(place.parent.name))
    return found
