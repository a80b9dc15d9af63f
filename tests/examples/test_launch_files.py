"""DeepScaleR's launch files: what each machine runs, by the recipe's figures, and what is refused."""

import socket
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouthub.trainers.workers.worker_settings import read_settings
from tests.examples.launched import (
    EXAMPLE,
    GPUS,
    SIZES,
    SYSTEMS,
    calls,
    options_of,
    training_call,
    write_launch,
)

RECIPE: dict[str, Any] = tomllib.loads((EXAMPLE / "recipe.toml").read_text())


def stage_of(name: str) -> dict[str, Any]:
    return next(stage for stage in RECIPE["stages"] if stage["name"] == name)


def flag(arguments: Sequence[str], name: str) -> str:
    return arguments[list(arguments).index(f"--{name}") + 1]


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_command_writes_the_prompts_and_trains_by_the_recipe(system: str, tmp_path: Path) -> None:
    for gpus, stage in SIZES:
        folder = write_launch(system, gpus, stage, tmp_path / f"{gpus}")
        made = calls(folder, tmp_path, node=2 if (system, gpus) == ("trl", 32) else 0)
        train, wanted = training_call(made), stage_of(stage)
        if system == "trl":
            arguments = train.arguments
            processes = int(flag(arguments, "num_processes"))
            rows = int(flag(arguments, "per_device_train_batch_size")) * processes
            assert rows * int(flag(arguments, "gradient_accumulation_steps")) == RECIPE["training"]["global_batch"]
            assert rows * int(flag(arguments, "steps_per_generation")) == 128 * 8
            assert int(flag(arguments, "max_steps")) == wanted["steps"] * 16
            found = flag(arguments, "learning_rate"), flag(arguments, "epsilon_high"), flag(arguments, "beta")
            longest = flag(arguments, "max_completion_length")
        else:
            assert [word for call in made for word in call.arguments if word.endswith("prompts.py")]
            options = options_of(train)
            rate, high, kl, tokens, steps = {
                "verl": (
                    "actor_rollout_ref.actor.optim.lr",
                    "actor_rollout_ref.actor.clip_ratio_high",
                    "actor_rollout_ref.actor.kl_loss_coef",
                    "data.max_response_length",
                    "trainer.total_training_steps",
                ),
                "skyrl": (
                    "trainer.policy.optimizer_config.lr",
                    "trainer.algorithm.eps_clip_high",
                    "trainer.algorithm.kl_loss_coef",
                    "generator.sampling_params.max_generate_length",
                    "trainer.max_training_steps",
                ),
                "nemo_rl": (
                    "policy.optimizer.kwargs.lr",
                    "loss_fn.ratio_clip_max",
                    "loss_fn.reference_policy_kl_penalty",
                    "policy.generation.max_new_tokens",
                    "grpo.max_num_steps",
                ),
            }[system]
            found, longest = (options[rate], options[high], options[kl]), options[tokens]
            assert int(options[steps]) == wanted["steps"]
        assert tuple(map(float, found)) == (wanted["learning_rate"], wanted["ratio_clip_max"], wanted["kl"])
        assert int(longest) == wanted["max_sequence_tokens"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_hub_is_told_what_to_play(system: str, tmp_path: Path) -> None:
    folder = write_launch(system, 8, "16K", tmp_path, "--data", str(EXAMPLE), "--seed", "7")
    request = read_settings(folder / "play.toml").request
    assert request.environments == ("deepscaler-16k", "aime24")
    assert request.set == {"response_tokens": 16384, "opens_thought": True, "deepscaler-16k.data": str(EXAMPLE)}
    assert (request.concurrency, request.seed) == (1024, 7)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_next_stage_starts_from_where_the_one_before_ends(
    system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_launch(system, 8, "8K", tmp_path)
    last = capsys.readouterr().out.splitlines()[-1].removeprefix("its last weights: ")
    train = training_call(calls(write_launch(system, 8, "16K", tmp_path), tmp_path))
    assert any(last == word or word.endswith(f"={last}") for word in train.arguments)
    train = training_call(calls(write_launch(system, 8, "24K", tmp_path, "--policy", "a/b; c"), tmp_path))
    assert any(word in ("a/b; c", word.partition("=")[0] + "=a/b; c") for word in train.arguments)


@pytest.mark.parametrize("system", ["verl", "skyrl", "nemo_rl"])
def test_machines_after_the_first_join_its_ray_and_wait(system: str, tmp_path: Path) -> None:
    folder = write_launch(system, 32, "8K", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        (joined,) = calls(folder, tmp_path, node=3, RAY_PORT=port)
        assert joined.program == "ray"
        assert joined.arguments == ("start", "--address", f"127.0.0.1:{port}", "--num-gpus", "8", "--block")
        first = calls(folder, tmp_path, RAY_PORT=port)
    assert first[0].arguments[:4] == ("start", "--head", "--node-ip-address", "127.0.0.1")
    assert [call.arguments for call in first if call.program == "ray"][-1] == ("stop",)


def test_trl_learns_on_half_of_the_gpus_and_vllm_serves_on_the_others(tmp_path: Path) -> None:
    made = calls(write_launch("trl", 8, "8K", tmp_path), tmp_path)
    assert {call.program: call.gpus for call in made} == {"vllm": "0,1,2,3", "python": "4,5,6,7"}
    folder = write_launch("trl", 32, "8K", tmp_path)
    served = [calls(folder, tmp_path, node=node) for node in (0, 1)]
    assert all([call.program for call in made] == ["vllm"] for made in served)
    assert flag(served[1][0].arguments, "data-parallel-start-rank") == "8"
    assert "--headless" not in served[0][0].arguments
    assert not (folder / "ended").exists()
    learners = [training_call(calls(folder, tmp_path, node=node)).arguments for node in (2, 3)]
    assert [flag(arguments, "machine_rank") for arguments in learners] == ["0", "1"]
    assert (folder / "ended").exists()  # which ends the servers


def test_options_that_are_given_go_to_the_trainer(tmp_path: Path) -> None:
    folder = write_launch("verl", 1, "8K", tmp_path)
    script = folder / "launch.sh"
    assert script.read_text().rstrip().endswith('"$@"')


@pytest.mark.parametrize("system", ["verl", "skyrl", "nemo_rl"])
def test_the_prompts_of_a_launch_are_written_without_the_answers(system: str, tmp_path: Path) -> None:
    data = tmp_path / "sums.jsonl"
    data.write_text('{"problem": "What is 12 + 25?", "answer": "8675309"}\n')
    given = ("--data", str(data), "--validation-data", str(data))
    folder = write_launch(system, 1, "8K", tmp_path, *given)
    command = [sys.executable, str(EXAMPLE / "prompts.py"), system, str(folder / "play.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = sorted(path for path in folder.iterdir() if path.stem in ("train", "validation"))
    assert len(written) == 2
    for path in written:
        assert b"12 + 25" in path.read_bytes()
        assert b"8675309" not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("verk", "--gpus", "8", "--stage", "8K"), "no training system is named 'verk'; did you mean 'verl'"),
        (("verl", "--gpus", "8", "--stage", "8k"), "no stage is named '8k'; did you mean '8K'?"),
        (("verl", "--gpus", "16", "--stage", "8K"), "--gpus 16: launch files are made for 1, 8, 32 GPUs"),
        (("verl", "--gpus", "8", "--stage", "8K", "--recipe", "/nowhere"), "the recipe '/nowhere' cannot be read"),
    ],
)
def test_what_there_is_no_launch_of_is_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "launch.py"), *options, "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("gpus", GPUS)
def test_every_script_is_one_that_bash_reads(gpus: int, tmp_path: Path) -> None:
    for system in SYSTEMS:
        script = write_launch(system, gpus, "24K", tmp_path / system) / "launch.sh"
        assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
