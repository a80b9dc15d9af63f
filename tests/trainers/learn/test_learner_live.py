"""The learner on tiny models: its log-probabilities, its steps however they are cut, its checkpoints and its ranks."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from rollouthub.errors import ConfigError, UsageError
from rollouthub.trainers.learn import VARIANTS, LearnSettings
from rollouthub.trainers.stream import VllmControl
from tests.models.servers import mock_server
from tests.trainers.learn.tiny_learner import apart, small_model, some_rows, weights_of
from tests.trainers.tiny import tiny_model

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]
DRIVE = Path(__file__).with_name("drive_ranks.py")
FAST: dict[str, Any] = {"learning_rate": 1e-3, "max_tokens": 24}
LORA: dict[str, Any] = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}


@pytest.fixture(autouse=True)
def torch(system: Callable[[str], ModuleType]) -> Any:
    """torch and transformers, or a skip."""
    system("transformers")
    return system("torch")


def learner(settings: dict[str, Any] | None = None, model: Any = None) -> Any:
    from rollouthub.trainers.learn import Learner

    return Learner(model or small_model(), LearnSettings(**{**FAST, **(settings or {})}))


def test_log_probabilities_are_the_models_own_at_the_temperature(torch: Any) -> None:
    model, rows = small_model(), some_rows(6)
    asked = learner({"temperature": 0.7, "micro_batch_tokens": 50}, model)
    found = asked.logprobs(rows)
    for row, logprobs in zip(rows, found, strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row.token_ids])).logits[0, :-1].float() / 0.7
        expected = logits.log_softmax(-1).gather(-1, torch.tensor(row.token_ids[1:])[:, None])[:, 0]
        expected = expected * torch.tensor(row.mask[1:])
        assert logprobs == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_is_the_same_however_its_rows_are_cut_into_micro_batches(variant: str) -> None:
    rows = some_rows(12)
    moved: list[dict[str, Any]] = []
    for tokens in (10_000, 60, 1):
        made = learner({**VARIANTS[variant], "kl": 0.01, "entropy": 0.01, "micro_batch_tokens": tokens})
        figures = made.learn_from(rows)
        assert (figures["rows"], figures["updates"], figures["skipped"]) == (12, 1, 0)
        moved.append(weights_of(made.model))
    assert apart(moved[0], weights_of(small_model())) > 1e-4
    assert max(apart(moved[0], moved[1]), apart(moved[0], moved[2])) < 2e-5


def test_rows_without_an_advantage_count_in_the_mean_and_move_nothing() -> None:
    from dataclasses import replace

    rows = some_rows(4)
    still = [replace(row, advantage=0.0) for row in rows]
    made = learner()
    figures = made.learn_from(still)
    assert apart(weights_of(made.model), weights_of(small_model())) == 0
    assert figures["updates"] == 1
    alone, among = learner({"normalize": "tokens"}), learner({"normalize": "tokens"})
    loss = alone.learn_from(rows)["grad_norm"]
    share = sum(row.learnt for row in rows) / sum(row.learnt for row in [*rows, *still])
    assert among.learn_from([*rows, *still])["grad_norm"] == pytest.approx(loss * share, rel=1e-4)


def test_what_is_rewarded_becomes_likelier_and_what_is_not_unlikelier() -> None:
    rows = some_rows(8)
    made = learner()
    before = [sum(logprobs) for logprobs in made.logprobs(rows)]
    for _ in range(5):
        made.learn_from(rows)
    after = [sum(logprobs) for logprobs in made.logprobs(rows)]
    assert all((late > early) == (row.advantage > 0) for row, early, late in zip(rows, before, after, strict=True))


def test_the_learning_rate_warms_up_over_optimizer_steps() -> None:
    made = learner({"warmup_steps": 4, "warmup_from": 0.2, "update_rows": 2})
    seen = [made.learn_from(some_rows(2))["learning_rate"] for _ in range(6)]
    assert seen == pytest.approx([2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1e-3])


def test_the_learning_rate_falls_after_its_warm_up() -> None:
    made = learner({"warmup_steps": 2, "warmup_from": 0.5, "decay_steps": 4, "decay_to": 0.2})
    seen = [made.learn_from(some_rows(2))["learning_rate"] for _ in range(8)]
    assert seen == pytest.approx([5e-4, 7.5e-4, 1e-3, 8e-4, 6e-4, 4e-4, 2e-4, 2e-4])


def test_a_gradient_that_is_not_finite_moves_nothing_and_is_counted() -> None:
    from dataclasses import replace

    made = learner()
    figures = made.learn_from([replace(row, advantage=float("inf")) for row in some_rows(2)])
    assert figures["skipped"] == 1
    assert apart(weights_of(made.model), weights_of(small_model())) == 0


def test_a_checkpoint_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    settings = {"update_rows": 3, "kl": 0.01, "warmup_steps": 10}
    whole, first = learner(settings), learner(settings)
    for step in range(4):
        whole.learn_from(some_rows(6, step))
    for step in range(2):
        first.learn_from(some_rows(6, step))
    first.save(tmp_path / "version-2")
    second = learner(settings)
    second.restore(tmp_path / "version-2")
    assert (second.version, second.updates) == (2, 4)
    for step in range(2, 4):
        second.learn_from(some_rows(6, step))
    assert apart(weights_of(whole.model), weights_of(second.model)) == 0
    reopened = import_module("transformers").AutoModelForCausalLM.from_pretrained(tmp_path / "version-2")
    assert apart(weights_of(reopened), weights_of(first.model)) == 0


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no learner\.pt"):
        learner().restore(tmp_path)


class Evil:
    """A pickle that makes a folder where it is loaded."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.witness),)


@pytest.mark.parametrize("kind", ["runs code", "other keys", "counts in words", "no pickle"])
def test_a_state_that_is_none_runs_nothing_and_is_refused(torch: Any, tmp_path: Path, kind: str) -> None:
    folder, witness = tmp_path / "version-1", tmp_path / "witness"
    folder.mkdir()
    if kind == "no pickle":
        (folder / "learner.pt").write_bytes(b"x" * 100)
    else:
        whole = {"counts": {"version": "1", "updates": "2"}, "optimizer": {}, "adapter": None, "random": {}}
        saved = {"runs code": {"counts": Evil(witness)}, "other keys": {"counts": 1}, "counts in words": whole}
        torch.save(saved[kind], folder / "learner.pt")
    with pytest.raises(UsageError, match=r"learner\.pt is no state of a learner"):
        learner().restore(folder)
    assert not witness.exists()


def test_the_reference_stays_where_the_stage_began() -> None:
    made = learner({"kl": 0.5})
    rows = some_rows(4)
    assert made.learn_from(rows)["kl"] == pytest.approx(0, abs=1e-6)
    assert made.learn_from(rows)["kl"] > 1e-6
    made.begin_stage(LearnSettings(**FAST, kl=0.5))
    assert made.learn_from(rows)["kl"] == pytest.approx(0, abs=1e-6)


def test_lora_learns_an_adapter_and_writes_it_merged(torch: Any, system: Callable[[str], Any], tmp_path: Path) -> None:
    from rollouthub.trainers.learn import VllmTransfer

    peft: Any = system("peft")
    adapted = peft.get_peft_model(
        small_model(), peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    made = learner({"kl": 0.1, "learning_rate": 1e-2}, adapted)
    rows = some_rows(6)
    figures = [made.learn_from(rows) for _ in range(3)][-1]
    assert figures["kl"] > 0  # from the model without its adapter
    assert all("lora_" in name for name, each in adapted.named_parameters() if each.requires_grad)
    made.save(tmp_path / "merged")
    plain = import_module("transformers").AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert set(plain.state_dict()) == set(small_model().state_dict())
    ids = torch.tensor([rows[0].token_ids])
    with torch.no_grad():
        assert torch.allclose(plain(input_ids=ids).logits, adapted(input_ids=ids).logits, atol=1e-4)
    with pytest.raises(ConfigError, match="cannot send an adapter's weights: take a CheckpointTransfer"):
        anyio.run(VllmTransfer("http://127.0.0.1:1/v1", VllmControl("http://127.0.0.1:1/v1")).send, made)
    again = learner(
        {"kl": 0.1, "learning_rate": 1e-2},
        peft.get_peft_model(small_model(), peft.LoraConfig(**LORA)),
    )
    again.restore(tmp_path / "merged")
    assert apart(weights_of(again.model), weights_of(adapted)) == 0


def test_a_model_that_scales_its_logits_afterwards_is_refused(torch: Any) -> None:
    transformers: Any = import_module("transformers")
    config = transformers.GraniteConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, logits_scaling=4.0,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="granite scales or caps its logits"):
        learner(model=transformers.GraniteForCausalLM(config))


def test_two_sharded_ranks_take_the_step_of_one(tmp_path: Path) -> None:
    alone = learner({"update_rows": 5, "kl": 0.01, "micro_batch_tokens": 60})
    figures = [alone.learn_from(some_rows(10, step)) for step in range(3)]
    alone.begin_stage(LearnSettings(**FAST), keeps_moments=True)
    figures.append(alone.learn_from(some_rows(10, 3)))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(DRIVE), str(tmp_path)]
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "figures.json").read_text())
    assert told.pop() == {"waits_days": 30, "refused": True}
    for ours, theirs in zip(figures, told, strict=True):
        for name in ("loss", "grad_norm", "kl", "mismatch", "tokens"):
            if name == "kl" and "kl" not in ours:
                continue
            assert theirs[name] == pytest.approx(ours[name], rel=1e-3, abs=1e-6)
    sharded = import_module("transformers").AutoModelForCausalLM.from_pretrained(tmp_path / "restored")
    assert apart(weights_of(sharded), weights_of(alone.model)) < 1e-4


def test_the_reference_of_a_model_that_computes_in_16_bits_stays_where_it_was(torch: Any) -> None:
    from rollouthub.trainers.learn import Ranks
    from rollouthub.trainers.learn.model_loading import prepared

    made = learner({"kl": 0.5, "learning_rate": 1e-2}, prepared(small_model(), Ranks(), torch.bfloat16))
    rows = some_rows(4)
    assert made.learn_from(rows)["kl"] == pytest.approx(0, abs=1e-6)
    assert made.learn_from(rows)["kl"] > 1e-3


def test_lora_takes_a_reference_that_is_given(system: Callable[[str], Any]) -> None:
    peft: Any = system("peft")
    made = learner({}, peft.get_peft_model(small_model(), peft.LoraConfig(**LORA)))
    made.begin_stage(LearnSettings(**FAST, kl=0.5), small_model(1))
    assert made.learn_from(some_rows(4))["kl"] > 1e-3


@pytest.mark.parametrize("lora", [{"rank": 4}, {"target_modules": ["nope"]}, {"use_dora": True}])
def test_lora_that_cannot_be_had_is_refused(system: Callable[[str], Any], tmp_path: Path, lora: dict[str, Any]) -> None:
    from rollouthub.trainers.learn import open_policy

    system("peft")
    with pytest.raises(ConfigError, match="lora: "):
        open_policy(tiny_model(tmp_path / "policy"), lora=lora)


def test_a_checkpoint_of_another_kind_of_model_is_refused(system: Callable[[str], Any], tmp_path: Path) -> None:
    peft: Any = system("peft")
    whole = learner()
    adapted = learner({}, peft.get_peft_model(small_model(), peft.LoraConfig(**LORA)))
    for made, name in ((whole, "whole"), (adapted, "adapted")):
        made.learn_from(some_rows(2))
        made.save(tmp_path / name)
    before = weights_of(whole.model)
    for made, name in ((whole, "adapted"), (adapted, "whole"), (learner(model=small_model(layers=1)), "whole")):
        with pytest.raises(UsageError, match="another kind of model"):
            made.restore(tmp_path / name)
    assert apart(before, weights_of(whole.model)) == 0


def test_a_checkpoint_that_was_interrupted_is_not_taken_up(torch: Any, monkeypatch: Any, tmp_path: Path) -> None:
    from rollouthub.trainers.learn.training_loop import latest_checkpoint

    made = learner()
    made.save(tmp_path / "version-000001")

    def torn(kept: Any, path: Path) -> None:
        path.write_bytes(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", torn)
    with pytest.raises(KeyboardInterrupt):
        made.save(tmp_path / "version-000002")
    assert latest_checkpoint(tmp_path) == tmp_path / "version-000001"


def test_a_stage_that_keeps_the_moments_has_its_own_decays() -> None:
    made = learner()
    made.learn_from(some_rows(2))
    made.begin_stage(LearnSettings(**FAST, weight_decay=0.5, betas=(0.8, 0.9)), keeps_moments=True)
    (group,) = made.optimizer.param_groups
    assert (group["weight_decay"], group["betas"], len(made.optimizer.state) > 0) == (0.5, (0.8, 0.9), True)


def test_a_run_taken_up_again_keeps_the_weights_that_it_just_wrote(tmp_path: Path) -> None:
    from rollouthub.trainers.learn import CheckpointTransfer

    made, loaded = learner(), list[str]()

    async def load(folder: str) -> None:
        loaded.append(folder)

    for version in (14, 15):
        (tmp_path / f"version-{version:06d}").mkdir()
    way = CheckpointTransfer(tmp_path, load)
    for version in (11, 12, 13):
        made.version = version
        anyio.run(way.send, made)
        assert (Path(loaded[-1]) / "model.safetensors").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["version-000012", "version-000013"]


def test_the_policys_weights_are_loaded_whole_or_not_at_all(tmp_path: Path) -> None:
    from rollouthub.trainers.policy.__main__ import load_weights

    served, other = small_model(), small_model(1, layers=1)
    before = weights_of(served)
    other.save_pretrained(tmp_path / "other")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.safetensors").write_bytes(b"{}")
    headless = small_model(2)
    weights = {name: tensor for name, tensor in headless.state_dict().items() if name != "lm_head.weight"}
    headless.save_pretrained(tmp_path / "headless", state_dict=weights)
    for name, said in (("other", "missing"), ("broken", "cannot be read"), ("headless", "1 missing")):
        with pytest.raises(UsageError, match=said):
            load_weights(served, str(tmp_path / name))
    assert apart(before, weights_of(served)) == 0
    small_model(3).save_pretrained(tmp_path / "good")
    load_weights(served, str(tmp_path / "good"))
    assert apart(weights_of(small_model(3)), weights_of(served)) == 0


async def test_a_run_taken_up_again_tells_servers_that_have_a_later_version(tmp_path: Path) -> None:
    from rollouthub.trainers.learn import CheckpointTransfer, train

    def made() -> Any:
        return learner({"normalize": "tokens"}, small_model(vocabulary=300))

    first, second, steps = made(), made(), list[int]()
    first.version = 1
    first.save(tmp_path / "run" / "checkpoints" / "version-000001")
    async with mock_server() as url:
        control = VllmControl(url)
        await control.updated(9)  # by the run that was interrupted
        with anyio.fail_after(60):  # else it waits for ever: rollouts of a later policy are dropped
            await train(
                second,
                directory=tmp_path / "run",
                steps=2,
                transfer=CheckpointTransfer(tmp_path / "weights", control.reload_weights, control),
                on_step=lambda step, figures: steps.append(step),
                environments=("arithmetic",),
                model="hosted_vllm/served",
                base_url=url,
                batch=1,
                repeats=2,
            )
        assert await control.versions() == ["2"]
    assert steps == [2]
