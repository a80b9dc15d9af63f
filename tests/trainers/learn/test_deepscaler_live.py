"""DeepScaleR's recipe at the size of a CPU: a tiny random policy in a process of its own, which the learner moves."""

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollouthub.processes import PYTHON
from tests.trainers.tiny import tiny_model

EXAMPLE = Path(__file__).parents[3] / "examples" / "deepscaler"
System = Callable[[str], ModuleType]


def train(*options: str) -> list[str]:
    """The lines it says."""
    command = [sys.executable, str(EXAMPLE / "train.py"), *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.live
def test_the_learner_goes_through_all_stages_with_a_policy_of_its_own(system: System, tmp_path: Path) -> None:
    system("torch")
    folder = tiny_model(tmp_path / "policy")
    data = tmp_path / "sums.jsonl"
    rows = [{"problem": f"What is {number} + 25?", "answer": str(number + 25)} for number in range(4)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    server = subprocess.Popen(
        [*PYTHON, "-m", "rollouthub.trainers.policy", str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        recipe = tmp_path / "recipe.toml"
        text = (EXAMPLE / "recipe.toml").read_text().replace("max_sequence_tokens = 8192", "max_sequence_tokens = 16")
        text = text.replace("max_sequence_tokens = 16384", "max_sequence_tokens = 24")
        recipe.write_text(text.replace("max_sequence_tokens = 24576", "max_sequence_tokens = 32"))
        options = ["--recipe", str(recipe), "--policy", str(folder), "-m", "hosted_vllm/policy", "--base-url", url]
        options += ["-o", str(tmp_path / "out"), "--data", str(data), "--validation-data", str(data)]
        options += ["--steps", "2", "--prompts", "2", "--samples", "2", "--validation-samples", "2", "-c", "8"]
        first = train(*options, "--stage", "8K")
        said = train(*options)
    finally:
        server.terminate()
        server.communicate()
    steps = [line.partition(":")[0] for line in first + said if " step " in line]
    assert steps == [f"{stage} step {step}/2" for stage in ("8K", "16K", "24K") for step in (1, 2)]
    state = json.loads((tmp_path / "out" / "state.json").read_text())
    assert (state["stage"], state["version"]) == (3, 6)
    assert (Path(state["checkpoint"]) / "learner.pt").exists()
    measured = [json.loads(line) for line in (tmp_path / "out" / "validation.jsonl").read_text().splitlines()]
    assert [(each["version"], each["tasks"], each["broken"]) for each in measured] == [
        (version, 4, {}) for version in (0, 2, 4, 6)
    ]


@pytest.mark.live
def test_a_stage_frees_the_one_before_it_and_opens_its_reference(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system("torch")
    transformers: Any = system("transformers")
    monkeypatch.setattr(sys, "path", [str(EXAMPLE), *sys.path])
    recipe = import_module("recipe").Recipe.read().model_copy(update={"policy": str(tiny_model(tmp_path / "policy"))})
    made = import_module("trainer").LearnerTrainer(recipe)
    first, second, _ = recipe.stages
    made.begin(first, None, None)
    made.save(tmp_path / "version-000001")
    before, plain = weakref.ref(made._learner.model), transformers.AutoModelForCausalLM.from_pretrained
    lived: list[bool] = []

    def opened(*given: Any, **named: Any) -> Any:
        lived.append(before() is not None)
        return plain(*given, **named)

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", opened)
    made.begin(second, tmp_path / "version-000001", tmp_path / "version-000001")
    assert lived == [False, False]  # the policy, and what its KL divergence is measured from
    for name in ("trainer", "recipe"):
        del sys.modules[name]
