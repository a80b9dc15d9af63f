"""`hub doctor`: its words fit a narrow terminal, and its exit code says whether something is serious."""

import json
from pathlib import Path

from .conftest import Hub


def test_a_run_with_faults_is_a_problem_and_the_report_says_why(hub: Hub) -> None:
    hub("run", "arithmetic", "-m", "mock/solver?fail=1", "--limit", "6", "--retries", "0", "-o", "runs/bad")
    done = hub("doctor", "last", "--json")
    assert (done.code, done.json["has_problems"], done.json["scored"]) == (1, True, 0)
    names = [symptom["name"] for symptom in done.json["symptoms"]]
    assert names[:2] == ["low coverage", "model:ModelError"]
    shown = hub("doctor", "runs/bad")
    assert shown.code == 1
    assert "the server failed" in shown.out


def test_a_healthy_run_is_none(hub: Hub) -> None:
    hub("run", "arithmetic", "-m", "mock/solver", "--limit", "6", "-o", "good")
    done = hub("doctor", "good")
    assert (done.code, "6 of 6 scored" in done.out) == (0, True)


def test_a_model_and_an_environment_are_tried(hub: Hub, tmp_path: Path) -> None:
    done = hub("doctor", "-m", "mock/solver", "-e", "arithmetic", "--json")
    found = {finding["name"]: finding["state"] for finding in json.loads(done.out)}
    assert (done.code, found["model call"], found["tasks"]) == (0, "ok", "ok")
    assert not (tmp_path / "runs").exists()


def test_the_walls_of_process_sandboxes_are_told(hub: Hub) -> None:
    found = {finding["name"]: finding["says"] for finding in json.loads(hub("doctor", "--json").out)}
    says = found["process sandboxes"]
    assert "programs share the machine's kernel" in says or says == "programs without containers"


def test_an_sglang_is_found_where_hub_serve_model_finds_it(hub: Hub, tmp_path: Path) -> None:
    def told(**variables: str) -> tuple[str, str]:
        (found,) = [each for each in json.loads(hub("doctor", "--json", **variables).out) if each["name"] == "sglang"]
        return found["state"], found["says"]

    assert told(PATH="/nowhere")[0] == "missing"
    program = tmp_path / "sglang"
    program.touch(mode=0o700)
    state, says = told(PATH=str(tmp_path))
    assert (state, says.startswith(str(program))) == ("ok", True)


def test_what_nobody_would_look_at_is_refused(hub: Hub) -> None:
    assert "name it: hub doctor -m" in hub("doctor", "--base-url", "http://127.0.0.1:1/v1").refused()
    assert "name it: hub doctor -e" in hub("doctor", "--split", "train").refused()
    assert "no run 'gone'" in hub("doctor", "gone").refused()
