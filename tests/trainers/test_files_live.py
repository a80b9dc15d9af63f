"""Exported data sets in the hands of those they are for: `datasets`, TRL's trainers, Harbor's validator."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollouthub import Message, ToolRequest
from tests.export.kept import DIGEST, PICTURE, keep, shown
from tests.export.made import forked, rollout, turn
from tests.trainers.tiny import tiny_model

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).parents[2]
HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]
System = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of eight groups of four, half of them right, in `runs/sums`."""
    place = tmp_path_factory.mktemp("offline")
    hub(place, "run", "arithmetic", "-m", "mock/solver?accuracy=0.5", "--limit", "8", "--repeats", "4", "--seed", "1",
        "-o", "runs/sums", "-q")  # fmt: skip
    return place


def hub(place: Path, *words: str) -> None:
    subprocess.run([*HUB, *words], cwd=place, check=True, capture_output=True, timeout=120)


def export(place: Path, form: str, name: str, *words: str) -> Path:
    hub(place, "export", "runs/sums", "--to", form, "-o", name, *words)
    return place / name


def example(place: Path, name: str, *words: object) -> str:
    """What an example prints."""
    command = [sys.executable, str(ROOT / "examples" / "offline" / name), *map(str, words), "--cpu"]
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def weights(model: Path) -> Any:
    transformers: Any = sys.modules["transformers"]
    return transformers.AutoModelForCausalLM.from_pretrained(model).lm_head.weight


@pytest.mark.parametrize(("name", "tokens"), [("sft.jsonl", ()), ("sft.parquet", ()), ("ids.parquet", ("--tokens",))])
def test_trl_fine_tunes_on_the_file_as_it_is(
    system: System, folder: Path, tmp_path: Path, name: str, tokens: tuple[str, ...]
) -> None:
    for module in ("torch", "transformers", "trl"):
        system(module)
    data = export(folder, "sft", name, "--passed", *tokens)
    model = tiny_model(tmp_path / "model")
    said = example(folder, "sft.py", data, model, tmp_path / "out", "--steps", 6, "--lr", 3e-3, "--batch", 4)
    found = re.search(r"6 steps, loss ([\d.]+) to ([\d.]+)", said)
    assert found is not None, said
    assert float(found[2]) < float(found[1])
    assert not bool((weights(model) == weights(tmp_path / "out")).all())


def test_trl_separates_the_rows_of_a_packed_sequence(system: System, folder: Path) -> None:
    """Its own collator, padding-free, gives the positions and the ends of rows that the file has."""
    torch, datasets = system("torch"), system("datasets")
    collator = system("trl.trainer.sft_trainer").DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    data = export(folder, "sft", "packed.parquet", "--tokens", "--pack", "2048")
    rows = datasets.load_dataset("parquet", data_files=str(data), split="train")
    assert max(len(row["seq_lengths"]) for row in rows) > 1
    for row in rows:
        batch = collator([{name: row[name] for name in ("input_ids", "labels", "seq_lengths")}])
        assert batch["input_ids"].tolist() == [row["input_ids"]]
        assert batch["position_ids"].tolist() == [row["position_ids"]]
        assert batch["labels"].tolist() == [row["labels"]]
        assert batch["cu_seq_lens_q"].tolist() == [0, *torch.tensor(row["seq_lengths"]).cumsum(0).tolist()]


def test_trl_learns_preferences_from_the_file_as_it_is(system: System, folder: Path, tmp_path: Path) -> None:
    for module in ("torch", "transformers", "trl"):
        system(module)
    data = export(folder, "dpo", "dpo.jsonl", "--pairs", "all")
    model = tiny_model(tmp_path / "model")
    said = example(folder, "dpo.py", data, model, tmp_path / "out", "--steps", 6, "--lr", 3e-3)
    found = re.search(r"6 steps, margin (-?[\d.]+) to (-?[\d.]+)", said)
    assert found is not None, said
    assert float(found[2]) > float(found[1])


def test_trl_is_given_exactly_the_ids_and_the_labels_of_the_record(
    system: System, folder: Path, tmp_path: Path
) -> None:
    """Nothing is tokenised again: what reaches the loss is what was sampled."""
    trl: Any = system("trl")
    datasets: Any = system("datasets")
    data = export(folder, "sft", "exact.jsonl", "--tokens")
    rows = datasets.load_dataset("json", data_files=str(data), split="train", cache_dir=str(tmp_path / "cache"))
    config = trl.SFTConfig(output_dir=str(tmp_path / "out"), use_cpu=True, bf16=False, max_length=None, report_to=[])
    trainer = trl.SFTTrainer(str(tiny_model(tmp_path / "model")), args=config, train_dataset=rows)
    wanted = [json.loads(line) for line in data.read_text().splitlines()]
    for given, row in zip(trainer.train_dataset, wanted, strict=True):
        assert given["input_ids"] == row["input_ids"]
        masked = zip(row["input_ids"], row["loss_mask"], strict=True)
        assert given["labels"] == [token if learnt else -100 for token, learnt in masked]


def test_trl_renders_tools_and_calls_from_both_kinds_of_file_alike(
    system: System, folder: Path, tmp_path: Path
) -> None:
    transformers: Any = system("transformers")
    datasets: Any = system("datasets")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model(tmp_path / "model"))
    texts: list[list[str]] = []
    for kind, name in (("json", "same.jsonl"), ("parquet", "same.parquet")):
        data = export(folder, "sft", name)
        rows = datasets.load_dataset(kind, data_files=str(data), split="train", cache_dir=str(tmp_path / kind))
        texts.append(
            [
                tokenizer.apply_chat_template(row["messages"], tools=json.loads(row["tools"]), tokenize=False)
                for row in rows
            ]
        )
    assert texts[0] == texts[1]
    assert '"arguments": {"expression": "' in texts[0][0]
    assert "Evaluate an arithmetic expression" in texts[0][0]


def test_trl_takes_labels_of_good_and_bad(system: System, folder: Path, tmp_path: Path) -> None:
    trl: Any = system("trl")
    datasets: Any = system("datasets")
    data = export(folder, "kto", "kto.jsonl")
    rows = datasets.load_dataset("json", data_files=str(data), split="train", cache_dir=str(tmp_path / "cache"))
    config = trl.KTOConfig(
        output_dir=str(tmp_path / "out"),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        max_steps=2,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
    )
    trainer = trl.KTOTrainer(str(tiny_model(tmp_path / "model")), args=config, train_dataset=rows)
    trainer.train()
    assert trainer.state.global_step == 2


def trajectories(file: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in file.read_text().splitlines())


def test_harbor_s_validator_finds_every_trajectory_valid(system: System, folder: Path) -> None:
    validator: Any = system("harbor.utils.trajectory_validator")
    models: Any = system("harbor.models.trajectories")
    found = list(trajectories(export(folder, "atif", "atif.jsonl")))
    assert len(found) == 32
    for told in found:
        check = validator.TrajectoryValidator()
        assert check.validate(told), check.errors
        read = models.Trajectory.model_validate(told).to_json_dict()
        assert read["steps"] == told["steps"]  # ids, logprobs and all


def test_harbor_s_validator_takes_forks_seats_pictures_and_broken_calls(system: System, tmp_path: Path) -> None:
    validator: Any = system("harbor.utils.trajectory_validator")
    broken = Message(role="assistant", tool_requests=(ToolRequest(id="c", name="add", arguments="{x"),))
    heard = Message(role="tool", content="no JSON", tool_call_id="c")
    keep(
        tmp_path / "runs" / "sums",
        forked(group="a"),
        rollout(turn(0, [1], [2], response=broken), turn(1, [1, 2], [3], messages=(heard,)), group="b"),
        rollout(turn(0, [1], [2]), turn(1, [5], [6], parent=None, agent="critic"), group="c"),
        rollout(turn(0, [1], [2], messages=(shown(), shown("audio/x-odd"))), group="d"),
        rollout(turn(0, [1], [2]), group="e", reward=None),
        media={DIGEST: PICTURE},
    )
    found = list(trajectories(export(tmp_path, "atif", "atif.jsonl", "--untrainable")))
    assert len(found) == 5
    for place, told in enumerate(found):
        (tmp_path / f"{place}.json").write_text(json.dumps(told))
        check = validator.TrajectoryValidator()
        assert check.validate(tmp_path / f"{place}.json"), check.errors
