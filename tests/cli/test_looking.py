"""`hub runs`, `hub show`, `hub export`, `hub list`, `hub doctor`."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import typer.main

from rollouthub import Rollout
from rollouthub.cli.main import app
from rollouthub.cli.overview import FIRST, PANELS

from .conftest import HUB, Hub


def test_runs_are_listed_newest_first(hub: Hub) -> None:
    for name in ("runs/one", "runs/two"):
        hub("run", "arithmetic", "--limit", "2", "-o", name)
    assert [entry["run"] for entry in hub("runs", "--json").json] == ["runs/two", "runs/one"]
    assert "runs/two" in hub("runs").out


def test_no_runs_is_no_error(hub: Hub) -> None:
    done = hub("runs")
    assert done.code == 0
    assert "no runs" in done.err


def test_a_rollout_is_shown_in_full(hub: Hub) -> None:
    hub("run", "arithmetic", "-m", "mock/solver", "--limit", "2", "-o", "runs/r")
    listing = hub("show", "last")
    assert listing.code == 0
    rollout_id = listing.out.splitlines()[1].split()[0]
    shown = hub("show", "last", rollout_id)
    assert "calculate" in shown.out
    assert "passed, reward 1.000 (scored, the agent finished)" in shown.out
    assert re.search(r"calls calculate  expression: [\d +*-]+\n", shown.out), "arguments are told as names and values"
    record = Rollout.model_validate_json(hub("show", "r", rollout_id, "--json").out)
    assert record.rollout_id == rollout_id


def test_an_unknown_rollout_is_refused(hub: Hub) -> None:
    hub("run", "arithmetic", "--limit", "2", "-o", "run")
    assert "zzzz" in hub("show", "run", "zzzz").refused()


def test_export_writes_every_record(hub: Hub, tmp_path: Path) -> None:
    hub("run", "arithmetic", "-m", "mock/solver", "--limit", "5", "-o", "run")
    assert hub("export", "run", "--to", "jsonl", "-o", "out.jsonl").code == 0
    records = [Rollout.model_validate_json(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(records) == 5
    assert all(record.trainable for record in records)
    assert len(hub("export", "run").out.splitlines()) == 5


def test_hostile_text_cannot_drive_the_terminal(hub: Hub, tmp_path: Path) -> None:
    problem = "\x1b]0;owned\x07 [bold red]\u202e 1+1?"
    (tmp_path / "rows.jsonl").write_text(json.dumps({"problem": problem, "answer": "2"}) + "\n")
    hub("run", "math", "--set", "data=rows.jsonl", "-o", "run")
    rollout_id = hub("show", "run").out.splitlines()[1].split()[0]
    shown = hub("show", "run", rollout_id)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "\u202e" not in shown.out
    assert "[bold red]" in shown.out


def test_the_catalogue_names_what_ships(hub: Hub) -> None:
    found = hub("list", "--json").json
    names = {entry["name"] for entry in found["environments"]}
    assert {"arithmetic", "gsm8k", "math", "aime24", "deepscaler"} <= names
    assert {"tool_loop", "oracle", "null"} <= {entry["name"] for entry in found["agents"]}
    assert {"sft", "dpo"} <= {entry["name"] for entry in found["export_formats"]}
    assert {"trl", "verl"} <= {entry["name"] for entry in found["trainers"]}
    assert {"docker", "process"} <= {entry["name"] for entry in found["sandboxes"]}
    assert "harbor" in {entry["name"] for entry in found["importers"]}
    assert "tensorboard" in {entry["name"] for entry in found["trackers"]}
    assert not [entry for entry in found["environments"] if "cannot be loaded" in entry["summary"]]


def test_the_doctor_finds_this_machine_fit_to_run(hub: Hub) -> None:
    done = hub("doctor", "--json")
    broken = [finding for finding in done.json if finding["state"] == "broken" and finding["name"] != "disk"]
    assert not broken
    assert {"python", "sqlite", "disk"} <= {finding["name"] for finding in done.json}


def test_the_doctor_says_what_sandboxes_lack(hub: Hub, tmp_path: Path) -> None:
    done = hub("doctor", "--json", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock", ROLLOUTHUB_IMAGES="nowhere.toml")
    assert done.code == 1
    found = {finding["name"]: finding for finding in done.json}
    assert found["container engine"]["state"] == "missing"
    assert "nobody.sock" in found["container engine"]["says"]
    assert found["image table"]["state"] == "broken"
    assert found["bubblewrap"]["state"] in ("ok", "missing")


def test_the_help_names_every_command_on_one_screen(hub: Hub) -> None:
    lines = hub("--help").out.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 88
    commands: Any = getattr(typer.main.get_command(app), "commands", {})
    visible = [name for name, command in commands.items() if not command.hidden]
    named = [name for panel in PANELS.values() for name in panel]
    assert sorted(named) == sorted(visible)
    for command in FIRST:
        assert command in "\n".join(lines)


def test_help_and_version_answer(hub: Hub) -> None:
    assert hub("--version").out.startswith("hub ")
    for command in ("run", "runs", "show", "export", "list", "bench", "doctor", "serve"):
        assert hub(command, "--help").code == 0


def test_a_run_that_cannot_be_read_is_listed_last_and_is_not_the_last_run(hub: Hub, tmp_path: Path) -> None:
    hub("run", "arithmetic", "--limit", "2", "-o", "runs/good")
    (tmp_path / "runs" / "zbad").mkdir()
    (tmp_path / "runs" / "zbad" / "run.db").write_text("junk" * 1000)
    assert [entry["run"] for entry in hub("runs", "--json").json] == ["runs/good", "runs/zbad"]
    assert "runs/zbad: runs/zbad/run.db cannot be read" in hub("runs").out
    assert "runs/good" in hub("show", "last").out


def test_what_is_shown_later_is_what_the_run_said(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"problem": "1+1?", "answer": "2"}\n{"problem": "3?"}\n')
    said = hub("run", "math", "--set", "data=rows.jsonl", "--skip-bad", "--json", "-o", "run").json
    shown = hub("show", "run", "--json").json
    assert said["bad_rows"] == 1
    assert shown == {**said, "seconds": None, "cpu_seconds": None}


def test_output_that_finds_a_full_disk_is_one_line_and_loses_no_run(hub: Hub, tmp_path: Path) -> None:
    command = ["run", "arithmetic", "--limit", "2", "--json", "-q", "-o", "run"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*HUB, *command], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "could not be written" in done.stderr
    assert hub("show", "run", "--json").json["scored"] == 2


def test_a_run_without_an_open_stdout_ends_well(hub: Hub, tmp_path: Path) -> None:
    command = 'exec "$@" >&-'
    closed = subprocess.run(
        ["sh", "-c", command, "sh", *HUB, "run", "arithmetic", "--limit", "2", "-o", "run"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert closed.returncode == 0, closed.stderr
    assert hub("show", "run", "--json").json["scored"] == 2
