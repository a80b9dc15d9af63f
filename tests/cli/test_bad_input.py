"""What people get wrong: one clear screen, exit code 2, nothing lost."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.store import open_run

from .conftest import HUB, Hub, environment, started


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "arithmetik"), ["'arithmetik'", "did you mean 'arithmetic'"]),
        (("run",), ["name an environment", "hub list"]),
        (("run", "arithmetic", "-a", "oracel"), ["did you mean 'oracle'"]),
        (("run", "arithmetic", "--set", "termz=3"), ["'termz'", "did you mean 'terms'"]),
        (("run", "arithmetic", "--set", "terms=many"), ["terms", "'many'"]),
        (("run", "arithmetic", "--set", "terms"), ["KEY=VALUE"]),
        (("run", "arithmetic", "--split", "tset"), ["did you mean 'test'"]),
        (("run", "arithmetic", "-a", "tool_loop"), ["needs a model", "-m"]),
        (("run", "arithmetic", "-m", "hosted_vlm/x"), ["hosted_vllm"]),
        (("run", "arithmetic", "-m", "mock/slover"), ["solver"]),
        (("run", "arithmetic", "-m", "hosted_vllm/x"), ["--base-url", "HOSTED_VLLM_API_BASE"]),
        (("run", "arithmetic", "-m", "hosted_vllm/x", "--base-url", "http://127.0.0.1:1/v1"), ["http://127.0.0.1:1"]),
        (("run", "arithmetic", "--base-url", "http://127.0.0.1:1"), ["no model", "-m hosted_vllm/NAME"]),
        (
            ("run", "arithmetic", "-m", "mock/solver", "--base-url", "http://127.0.0.1:1"),
            ["uses no server", "hosted_vllm/mock/solver"],
        ),
        (
            ("run", "arithmetic", "-m", "mock/solver", "--temperature", "-1"),
            ["--temperature", "greater than or equal to 0"],
        ),
        (("run", "arithmetic", "-m", "mock/solver", "--top-p", "5"), ["--top-p", "less than or equal to 1"]),
        (("run", "arithmetic", "-m", "openai/x", "--base-url", "http://192.0.2.1/v1"), ["OPENAI_API_KEY"]),
        (("run", "arithmetic", "--limit", "0"), ["--limit"]),
        (("run", "arithmetic", "--resume"), ["-o"]),
        (("run", "math", "--set", "data="), ["no data", "--set data=PATH"]),
        (("run", "nowhere.py"), ["nowhere.py"]),
        (("run", "arithmetic", "-o", "/dev/null/run"), ["/dev/null/run is no folder", "-o"]),
        (("run", "arithmetic", "--config", "none.toml"), ["none.toml"]),
        (("show", "nothing"), ["'nothing'"]),
        (("export", "nothing", "--to", "jsonl"), ["'nothing'"]),
        (("bench", "overheat"), ["did you mean 'overhead'"]),
        (("runn",), ["run"]),
    ],
    ids=str,
)
def test_a_wrong_word_is_met_with_the_right_one(hub: Hub, arguments: tuple[str, ...], says: list[str]) -> None:
    complaint = hub(*arguments).refused()
    for words in says:
        assert words in complaint


ROWS = '{"problem": "1+1?", "answer": "2"}\nnot json\n{"problem": "2+2?", "answer": "4"}\n{"problem": "3?"}\n'


def test_a_malformed_row_is_named_by_file_and_line(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    complaint = hub("run", "math", "--set", "data=rows.jsonl", "-o", "run").refused()
    assert "rows.jsonl:2" in complaint
    assert not (tmp_path / "run").exists()


def test_bad_rows_can_be_skipped_and_are_counted(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    done = hub("run", "math", "--set", "data=rows.jsonl", "--skip-bad", "--json", "-o", "run")
    assert done.code == 0, done.err
    assert (done.json["rollouts"], done.json["bad_rows"], done.json["mean_reward"]) == (2, 2, 1.0)
    with open_run(tmp_path / "run") as reader:
        assert {row.task_id for row in reader.summaries()} == {"test/0", "test/2"}


def test_a_missing_column_is_named_with_those_there_are(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"questoin": "1+1?", "answer": "2"}\n')
    complaint = hub("run", "math", "--set", "data=rows.jsonl").refused()
    assert "rows.jsonl:1" in complaint
    assert "questoin" in complaint


def test_a_missing_data_file_is_named(hub: Hub) -> None:
    assert "nothing.jsonl" in hub("run", "gsm8k", "--set", "data=nothing.jsonl").refused()


def test_a_wrong_key_in_a_configuration_file_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('environments = ["arithmetic"]\nlimits = {max_turnz = 3}\nlimt = 3\n')
    complaint = hub("run", "--config", "run.toml").refused()
    assert "max_turnz" in complaint
    assert "did you mean 'limit'" in complaint


@pytest.mark.parametrize(
    ("command", "nearest"),
    [(("run", "arithmetic", "--limt", "3"), "--limit or --split"), (("images", "list", "--jso"), "--json")],
)
def test_an_unknown_option_is_met_with_the_nearest_one_first(hub: Hub, command: tuple[str, ...], nearest: str) -> None:
    done = hub(*command)
    assert done.code == 2
    assert f"did you mean {nearest}?" in done.err


def test_a_run_is_never_overwritten(hub: Hub) -> None:
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    assert "--resume" in hub("run", "arithmetic", "--limit", "2", "-o", "run").refused()


def test_resuming_with_other_settings_is_refused_by_name(hub: Hub) -> None:
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    complaint = hub("run", "arithmetic", "--set", "terms=7", "--limit", "2", "-o", "run", "--resume").refused()
    assert "arithmetic.terms" in complaint


def test_resuming_with_harmless_changes_goes_on(hub: Hub) -> None:
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    done = hub("run", "arithmetic", "--limit", "5", "-c", "2", "-o", "run", "--resume", "--json")
    assert done.code == 0, done.err
    assert done.json["scored"] == done.json["rollouts"] == 5


def test_a_newer_run_is_refused_for_resume_and_reading(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    database = sqlite3.connect(tmp_path / "run" / "run.db")
    database.execute("PRAGMA user_version = 999")
    database.commit()
    database.close()
    for arguments in (("show", "run"), ("run", "arithmetic", "--limit", "2", "-o", "run", "--resume")):
        assert "999" in hub(*arguments).refused()


def test_a_file_that_is_no_run_is_refused(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.db").write_text("not a database, but long enough to look like one" * 100)
    assert "run.db" in hub("show", "run").refused()


def test_a_read_only_run_can_be_read_and_is_not_resumed(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    run = str(tmp_path / "run")
    if subprocess.run(["mount", "--bind", run, run], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", run], check=True)
        shown = hub("show", "run")
        assert shown.code == 0, shown.err
        assert "2/2" in shown.out
        complaint = hub("run", "arithmetic", "--limit", "4", "-o", "run", "--resume").refused()
        assert "read-only" in complaint.lower()
    finally:
        subprocess.run(["umount", run], check=True)


def test_a_second_process_is_told_who_holds_the_run(hub: Hub, tmp_path: Path) -> None:
    arguments = ("run", "arithmetic", "-m", "mock/solver?latency=0.2", "-c", "2", "--limit", "500", "-o", "run")
    with started(tmp_path, *arguments) as first:
        _until_a_rollout_is_there(tmp_path / "run", first)
        complaint = hub(*arguments, "--resume").refused()
        assert str(first.pid) in complaint
        assert first.poll() is None


def _until_a_rollout_is_there(directory: Path, process: subprocess.Popen[str], count: int = 1) -> None:
    """Wait for the first committed rollouts of a live run."""
    script = (
        "import sys, sqlite3, time\n"
        "end = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        c = sqlite3.connect(f'file:{sys.argv[1]}/run.db?mode=ro', uri=True)\n"
        "        if c.execute('SELECT count(*) FROM rollouts').fetchone()[0] >= int(sys.argv[2]): sys.exit(0)\n"
        "    except sqlite3.Error: pass\n"
        "    time.sleep(0.02)\n"
        "sys.exit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(directory), str(count)], check=False).returncode == 0
    assert process.poll() is None


def test_a_full_disk_keeps_what_is_committed_and_says_what_to_do(hub: Hub, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small file system")
    try:
        done = hub("run", "arithmetic", "--limit", "100000", "--set", "size=100000", "-o", "small/run", timeout=120)
        assert done.code == 1
        assert "Traceback" not in done.err
        assert "--resume" in done.err
        shown = hub("show", "small/run", "--json")
        assert shown.code == 0, shown.err
        kept = shown.json["scored"]
        assert kept > 100
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        resumed = hub("run", "arithmetic", "--limit", str(kept + 50), "--set", "size=100000", "-o", "small/run",
                      "--resume", "--json", timeout=120)  # fmt: skip
        assert resumed.code == 0, resumed.err
        assert resumed.json["outcomes"]["scored"] >= kept
    finally:
        subprocess.run(["umount", str(small)], check=True)


WORLD = """
import time
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task, tool

class World(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="a", prompt="p"), Secret())
        {tasks}
    {tool}
    async def verify(self, submission):
        return Score(reward=1.0)
"""


@pytest.mark.parametrize(
    ("tasks", "tool", "says"),
    [
        ("yield 5", "", "yielded 5, which is no Task"),
        ("raise ValueError('no rows')", "", "ValueError: no rows"),
        ("yield Task(Public(id='a', prompt='q'), Secret())", "", "two tasks of world (test) have the id 'a'"),
        ("yield Task(Public(id='b', prompt=chr(0xd800)), Secret())", "", "task 'b' of split 'test' is not JSON"),
        ("", "@tool\n    async def roll(self): yield 1", "tool World.roll must return its result; it yields"),
        ("", "@tool\n    async def roll(self, count): pass", "parameter 'count' needs a name and a type"),
    ],
)
def test_an_environment_that_does_not_fit_says_why(hub: Hub, tmp_path: Path, tasks: str, tool: str, says: str) -> None:
    (tmp_path / "world.py").write_text(WORLD.format(tasks=tasks, tool=tool))
    assert says in hub("run", "world.py", "-a", "null").refused()


@pytest.mark.parametrize(("written", "lacks"), [("verify", "def tasks(cls"), ("tasks", "async def verify(self")])
def test_an_environment_that_lacks_a_method_is_refused_before_the_run(
    hub: Hub, tmp_path: Path, written: str, lacks: str
) -> None:
    header = "from rollouthub import Environment, EnvironmentConfig\n\nclass Half(Environment[EnvironmentConfig]):\n"
    (tmp_path / "half.py").write_text(f"{header}    def {written}(self): ...\n")
    complaint = hub("run", "half.py", "-o", "run").refused()
    assert "Half lacks" in complaint
    assert lacks in complaint
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words",
    ["show locked/run", "compare locked/run .", "compare . . -o locked/x.html", "view . --bundle locked/pages"],
)
def test_what_may_not_be_looked_at_is_named(hub: Hub, tmp_path: Path, words: str) -> None:
    assert hub("run", "arithmetic", "--limit", "1", "-q", "-o", ".").code == 0
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    bound: list[str] = []
    if os.geteuid() == 0:  # rights hold for root, too, without these
        bound = [shutil.which("setpriv") or "setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
        if subprocess.run([*bound, "true"], check=False).returncode:
            pytest.skip("root cannot give up its rights here")
    command = [*bound, *HUB, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    locked.chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "locked/" in done.stderr
    assert "ermission denied" in done.stderr
    assert done.stderr.count("\n") == 1


def test_pages_go_to_no_folder_that_cannot_be_made(hub: Hub) -> None:
    assert hub("run", "arithmetic", "--limit", "1", "-q", "-o", "run").code == 0
    said = hub("view", "run", "--bundle", "/proc/pages").refused()
    assert "cannot write /proc/pages: " in said
    assert "name another folder" in said
