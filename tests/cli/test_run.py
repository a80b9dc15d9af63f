"""`hub run`, from the outside."""

import json
import stat
from pathlib import Path

import pytest

from rollouthub.store import open_run

from .conftest import Hub, mock_server

FIELDS = {
    "run",
    "rollouts",
    "scored",
    "coverage",
    "mean_reward",
    "mean_reward_strict",
    "pass_rate",
    "outcomes",
    "seconds",
    "cpu_seconds",
}


def test_without_model_and_agent_the_oracle_plays_and_the_output_says_so(hub: Hub) -> None:
    done = hub("run", "arithmetic", "--limit", "8")
    assert done.code == 0
    assert "No model was used" in done.out
    assert "-m mock/solver" in done.out
    assert "8/8" in done.out
    assert "1.000" in done.out


def test_json_is_one_object_with_the_promised_fields(hub: Hub, tmp_path: Path) -> None:
    done = hub("run", "arithmetic", "--limit", "4", "--repeats", "2", "--json", "-o", "run")
    assert done.code == 0
    assert set(done.json) >= FIELDS
    assert done.json["rollouts"] == done.json["scored"] == 8
    assert done.json["outcomes"] == {"scored": 8}
    assert done.json["mean_reward"] == done.json["coverage"] == 1.0
    assert (tmp_path / done.json["run"] / "run.db").exists()


def test_null_scores_nothing_and_the_run_is_complete(hub: Hub) -> None:
    done = hub("run", "arithmetic", "-a", "null", "--limit", "5", "--json")
    assert done.code == 0
    assert done.json["mean_reward"] == 0.0
    assert done.json["scored"] == 5


@pytest.mark.parametrize("agent", ["tool_loop", "react", "single_turn"])
def test_every_agent_plays_with_a_model_and_is_scored(hub: Hub, agent: str) -> None:
    done = hub("run", "arithmetic", "-m", "mock/solver", "-a", agent, "--limit", "3", "--max-turns", "6", "--json")
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": 3}


def test_a_replay_plays_a_stored_run_again(hub: Hub) -> None:
    first = hub("run", "arithmetic", "-m", "mock/solver?accuracy=0.5", "--limit", "12", "-o", "first", "--json")
    again = hub("run", "arithmetic", "-a", "replay", "--agent-set", "run=first", "--limit", "12", "--json")
    assert 0 < first.json["mean_reward"] < 1
    assert again.json["mean_reward"] == first.json["mean_reward"]


def test_samples_share_a_task_and_pass_at_k_is_reported(hub: Hub) -> None:
    done = hub("run", "arithmetic", "-m", "mock/solver?accuracy=0.5", "--seed", "1", "--limit", "20", "--repeats", "4")
    assert "pass@k" in done.out
    assert "80/80" in done.out


def test_the_same_seed_gives_the_same_rollouts(hub: Hub, tmp_path: Path) -> None:
    for name in ("one", "two"):
        hub("run", "arithmetic", "-m", "mock/solver?accuracy=0.5", "--seed", "3", "--limit", "20", "-o", name)
    rewards: list[dict[str, float | None]] = []
    for name in ("one", "two"):
        with open_run(tmp_path / name) as reader:
            rewards.append({row.rollout_id: row.reward for row in reader.summaries()})
    assert rewards[0] == rewards[1]
    assert set(rewards[0].values()) == {0.0, 1.0}


def test_a_configuration_file_is_taken_and_options_win(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('environments = ["arithmetic"]\nagent = "null"\nlimit = 9\n[set]\nterms = 3\n')
    done = hub("run", "--config", "run.toml", "--limit", "2", "-o", "out", "--json")
    assert done.json["rollouts"] == 2
    assert done.json["mean_reward"] == 0.0
    again = hub("run", "--config", "out/resolved.json", "-o", "again", "--json")
    assert again.json["rollouts"] == 2
    resolved = json.loads((tmp_path / "again" / "resolved.json").read_text())
    assert resolved["request"]["set"]["arithmetic.terms"] == 3


def test_several_environments_make_one_run(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"problem": "1+1?", "answer": "2"}\n')
    done = hub("run", "arithmetic", "math", "--set", "math.data=rows.jsonl", "--limit", "3", "--json", "-o", "run")
    assert done.code == 0, done.err
    assert done.json["rollouts"] == 4


def test_served_and_in_process_mocks_agree(hub: Hub, tmp_path: Path) -> None:
    with mock_server(tmp_path, "mock/solver") as url:
        served = hub(
            "run", "arithmetic", "-m", "hosted_vllm/mock/solver", "--base-url", url, "--limit", "6", "-o", "a", "--json"
        )
    local = hub("run", "arithmetic", "-m", "mock/solver", "--limit", "6", "-o", "b", "--json")
    assert served.code == local.code == 0
    with open_run(tmp_path / "a") as one, open_run(tmp_path / "b") as other:
        for left, right in zip(
            sorted(one.rollouts(), key=lambda r: r.rollout_id),
            sorted(other.rollouts(), key=lambda r: r.rollout_id),
            strict=True,
        ):
            assert left.trainable
            assert [turn.output_token_ids for turn in left.turns] == [turn.output_token_ids for turn in right.turns]
            assert [turn.response.text for turn in left.turns] == [turn.response.text for turn in right.turns]


def test_thirty_percent_of_failing_calls_are_retried_and_the_run_completes(hub: Hub, tmp_path: Path) -> None:
    with mock_server(tmp_path, "mock/solver?fail=0.3&seed=5") as url:
        done = hub(
            "run", "arithmetic", "-m", "hosted_vllm/mock/solver?fail=0.3&seed=5", "--base-url", url,
            "--limit", "60", "-o", "run", "--json", timeout=120,
        )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": 60}
    with open_run(tmp_path / "run") as reader:
        retries = sum(turn.retries for rollout in reader.rollouts() for turn in rollout.turns)
    assert retries > 10


def test_failing_attempts_are_typed_kept_and_tried_again(hub: Hub, tmp_path: Path) -> None:
    done = hub("run", "arithmetic", "-m", "mock/solver?fail=0.3&seed=5", "--limit", "40", "-o", "run", "--json")
    assert sum(done.json["outcomes"].values()) == 40
    assert set(done.json["outcomes"]) <= {"scored", "model_failed"}
    assert done.json["attempt_faults"]
    assert done.code == (0 if done.json["scored"] == 40 else 1)
    assert done.json["mean_reward"] == 1.0
    with open_run(tmp_path / "run") as reader:
        attempts = list(reader.summaries(effective=False))
    assert len(attempts) > 40


def test_a_model_that_never_answers_leaves_rollouts_unscored_not_zero(hub: Hub) -> None:
    done = hub("run", "arithmetic", "-m", "mock/solver?fail=1", "--limit", "3", "--retries", "1", "--json")
    assert done.code == 1
    assert done.json["scored"] == 0
    assert done.json["mean_reward"] is None
    assert done.json["coverage"] == 0.0
    assert done.json["outcomes"] == {"model_failed": 3}


def test_keys_are_in_no_file_of_the_run(hub: Hub, tmp_path: Path) -> None:
    key = "sk-very-secret-0123456789"
    with mock_server(tmp_path, "mock/solver") as url:
        done = hub(
            "run", "arithmetic", "-m", "hosted_vllm/mock/solver", "--limit", "4", "-o", "run",
            HOSTED_VLLM_API_BASE=url, HOSTED_VLLM_API_KEY=key,
        )  # fmt: skip
    assert done.code == 0, done.err
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) >= 3
    assert not [file for file in files if key.encode() in file.read_bytes()]
    assert key not in done.out + done.err


def test_what_is_given_wins_over_a_recorded_setting(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "arithmetic", "--limit", "1", "-o", "out").code == 0
    assert hub("run", "--config", "out/resolved.json", "--set", "terms=4", "-o", "again").code == 0
    resolved = json.loads((tmp_path / "again" / "resolved.json").read_text())
    assert resolved["request"]["set"]["arithmetic.terms"] == 4


def test_what_broke_is_said_in_its_own_words(hub: Hub) -> None:
    done = hub("run", "arithmetic", "-m", "mock/solver?fail=1", "--limit", "1", "--retries", "0")
    assert done.code == 1
    assert "model:ModelError, for example:" in done.out
    assert "simulated failure" in done.out


def test_what_a_run_writes_of_itself_is_its_users_alone_in_a_folder_of_all(hub: Hub, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    assert hub("run", "arithmetic", "--limit", "2", "-o", "run").code == 0
    assert (run / "logs" / "run.log").stat().st_size
    modes = {path.relative_to(run).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in run.rglob("*")}
    curves = {name for name in modes if name.startswith("tensorboard")}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077 and name not in curves} == {}
    assert {"hub.lock", "resolved.json", "run.lock", "run.toml", "run.db"} <= set(modes)
