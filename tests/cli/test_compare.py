"""`hub compare`: the same tasks by several models, in folders of their own, and what came of it."""

import json
import signal
from pathlib import Path

from rollouthub.store import open_run

from .conftest import Hub, started

TWO = ("-m", "mock/solver", "-m", "mock/solver?accuracy=0.5")


def test_models_play_the_same_tasks_with_the_same_seeds(hub: Hub, tmp_path: Path) -> None:
    done = hub("compare", "arithmetic", *TWO, "--limit", "12", "-o", "both", "--json", "-q")
    first, second = done.json["standings"]
    assert (done.code, done.json["common"], done.json["remarks"], done.json["full_tasks"]) == (0, 12, [], 1000)
    assert (first["mean_reward"]["value"], second["difference"]["tasks"]) == (1.0, 12)
    assert -1 < second["difference"]["value"] < 0
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        "01-mock_solver",
        "02-mock_solver_accuracy_0.5",
        "compare.json",
    ]
    again = hub("compare", "both/01-mock_solver", "both/02-mock_solver_accuracy_0.5", "--json")
    assert again.json["standings"][1]["difference"] == second["difference"]
    assert "On 12 common tasks" in hub("compare", "both").out


def test_what_models_share_is_given_to_each_of_them(hub: Hub, tmp_path: Path) -> None:
    shared = ("-a", "react", "--agent-set", "max_malformed=5", "--seat", "second=mock/echo@null", "--skip-bad")
    done = hub("compare", "negotiation", *TWO, *shared, "--limit", "2", "-o", "both", "-q")
    assert done.code == 0, done.err
    requests = [json.loads(file.read_text())["request"] for file in sorted((tmp_path / "both").glob("*/resolved.json"))]
    assert [request["agent_set"] for request in requests] == [{"max_malformed": 5}] * 2
    assert [request["seats"]["second"]["agent"] for request in requests] == ["null"] * 2
    assert [request["skip_bad"] for request in requests] == [True] * 2


def test_the_environment_s_own_model_is_one_for_all(hub: Hub, tmp_path: Path) -> None:
    user = ("--set", "user=model", "--role", "user=mock/say?text=###DONE###")
    done = hub("compare", "customer_service", *TWO, *user, "--limit", "1", "-o", "both", "-q")
    assert done.code == 0, done.err
    for directory in sorted((tmp_path / "both").glob("0*")):
        with open_run(directory) as reader:
            assert {call.role for rollout in reader.rollouts() for call in rollout.role_calls} == {"user"}


def test_one_model_is_no_comparison_and_a_wrong_one_is_met_before_any_plays(hub: Hub, tmp_path: Path) -> None:
    assert "two models or more" in hub("compare", "arithmetic", "-m", "mock/solver").refused()
    gone = ("-m", "hosted_vllm/m", "--base-url", "hosted_vllm/m=http://127.0.0.1:9/v1")
    refused = hub("compare", "arithmetic", "-m", "mock/solver", *gone, "--limit", "2", "-o", "new").refused()
    assert "cannot be reached" in refused
    assert not (tmp_path / "new").exists()
    shared = ("-m", "sglang/m", "--base-url", "http://127.0.0.1:9")
    refused = hub("compare", "arithmetic", "-m", "mock/solver", *shared, "--limit", "2", "-o", "new").refused()
    assert "'sglang/m' cannot be reached at http://127.0.0.1:9/v1" in refused
    other = hub("compare", "arithmetic", *TWO, "--base-url", "hosted_vllm/m=http://127.0.0.1:9/v1").refused()
    assert "is for no model here" in other


def test_runs_of_other_tasks_are_refused_with_the_count(hub: Hub) -> None:
    for seed in ("1", "2"):
        hub("run", "arithmetic", "--limit", "3", "--seed", seed, "-o", seed, "-q")
    assert "0 tasks in common (1 has 3, 2 has 3): 3 have the same ids" in hub("compare", "1", "2").refused()


def test_what_is_interrupted_is_kept_and_goes_on(hub: Hub, tmp_path: Path) -> None:
    slow = ("-m", "mock/solver", "-m", "mock/solver?latency=1")
    with started(tmp_path, "compare", "arithmetic", *slow, "--limit", "4", "-o", "both") as process:
        assert process.stderr is not None
        assert any(line.startswith("2/2 ") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert "has its models" in hub("compare", "--resume", "-o", "both", "--limit", "9").refused()
    done = hub("compare", "--resume", "-o", "both", "--json", "-q")
    assert (done.code, done.json["common"]) == (0, 4)
    assert [standing["scored"] for standing in done.json["standings"]] == [4, 4]


def test_three_runs_are_shown_by_environment_and_task(hub: Hub, tmp_path: Path) -> None:
    for name, accuracy in (("a", "0.95"), ("b", "0.5"), ("c", "0.9")):
        model = f"mock/solver?accuracy={accuracy}"
        hub("run", "arithmetic", "-m", model, "--limit", "12", "--repeats", "6", "-q", "-o", name)
    found = hub("compare", "a", "b", "c", "--json").json
    assert [row["run"] for row in found["matrix"]["rows"]] == ["a", "b", "c"]
    worse = found["changes"][0]["worse"]
    assert len(worse) == found["changes"][0]["counts"]["worse"] > 0
    shown = hub("compare", "a", "b", "c").out
    assert "mock/solver?accuracy=0.5 against mock/solver?accuracy=0.95" in shown
    assert "significant after correction" in shown
    assert max(map(len, shown.splitlines())) <= 110  # a pipe has no width
    task = worse[0]["key"][2]
    assert task in shown
    told = hub("compare", "a", "b", "c", "--task", task)
    assert "mock/solver?accuracy=0.95, best sample" in told.out
    assert "mock/solver?accuracy=0.5, worst sample" in told.out
    assert "feedback: expected" in told.out
    (across,) = hub("compare", "a", "b", "c", "--task", f"arithmetic/{task}", "--json").json
    assert [run["mean_reward"] for run in across["runs"]][:2] == [1.0, 0.0]
    assert hub("compare", "a", "b", "-o", "both.html", "-q").code == 0
    assert "Both conversations" in (tmp_path / "both.html").read_text()


def test_a_task_that_no_run_played_is_refused(hub: Hub) -> None:
    for name in ("a", "b"):
        hub("run", "arithmetic", "--limit", "3", "-q", "-o", name)
    assert "no task is named 'test/7'" in hub("compare", "a", "b", "--task", "test/7").refused()
    assert "leave -o out" in hub("compare", "a", "b", "--task", "test/1", "-o", "x.html").refused()
