"""Receipts against weights: the answers of a tiny model are its own, and those of another one are refuted."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from rollouthub import Message, Rollout, Turn
from rollouthub.rollout import Usage
from rollouthub.store import open_run
from rollouthub.values import Float32s, Int32s
from rollouthub_registry.receipt.claim import Claim
from rollouthub_registry.receipt.model_files import read_model_folder
from rollouthub_registry.receipt.weight_claims import logprob_claims
from tests.store.records import record, write
from tests.trainers.learn.tiny_learner import small_model

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]
NAME = "hosted_vllm/tiny"


@pytest.fixture(autouse=True)
def torch(system: Callable[[str], ModuleType]) -> Any:
    """torch and transformers, or a skip."""
    system("transformers")
    return system("torch")


def sampled(torch: Any, model: Any, count: int, temperature: float = 1.0, reported: float = 1.0) -> Iterator[Rollout]:
    """Rollouts of answers that a model gave, with the log-probabilities that a server reports at a temperature."""
    torch.manual_seed(1)
    for number in range(count):
        prompt, output, logprobs = [5, 6, 7 + number], list[int](), list[float]()
        for _ in range(12):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + output])).logits[0, -1].float()
            token = int((logits / temperature).softmax(-1).multinomial(1))
            output.append(token)
            logprobs.append(float((logits / reported).log_softmax(-1)[token]))
        turn = Turn(
            index=0,
            messages=(Message(role="user", content="go on"),),
            response=Message(role="assistant", content="…"),
            finish_reason="stop",
            usage=Usage(prompt_tokens=len(prompt), output_tokens=len(output)),
            sampling={"temperature": temperature},
            prompt_token_ids=Int32s(prompt),
            output_token_ids=Int32s(output),
            output_logprobs=Float32s(logprobs),
            token_source="engine",
        )
        yield record(f"g{number}-0", turns=(turn,), model=NAME)


def claims_of(tmp_path: Path, rollouts: Sequence[Rollout], weights: Any, limit: int | None = None) -> dict[str, Claim]:
    """What the weights of a model say of rollouts, by verdict."""
    run = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    anyio.run(write, run, rollouts)
    folder = run / "model"
    weights.save_pretrained(folder)
    with open_run(run) as reader:
        found = logprob_claims(reader, read_model_folder(folder), NAME, limit, list[str]().append)
        return {claim.verdict: claim for claim in found}


@pytest.mark.parametrize(("temperature", "reported"), [(1.0, 1.0), (0.5, 1.0), (0.5, 0.5)])
def test_a_models_answers_have_the_log_probabilities_that_its_weights_give(
    torch: Any, tmp_path: Path, temperature: float, reported: float
) -> None:
    model = small_model()
    found = claims_of(tmp_path, list(sampled(torch, model, 4, temperature, reported)), model)
    assert (list(found), found["consistent"].rollouts) == (["consistent"], 4)


def test_another_models_answers_are_refuted_one_by_one(torch: Any, tmp_path: Path) -> None:
    model, other = small_model(), small_model(seed=1)
    own, foreign = list(sampled(torch, model, 4)), list(sampled(torch, other, 5))
    mixed = [*own, foreign[-1]]
    found = claims_of(tmp_path, mixed, model)
    assert found["consistent"].rollouts == 5 - 1
    assert found["refuted"].examples[0].startswith("g4-0#0, turn 0: log-probabilities differ by")
    assert claims_of(tmp_path, foreign, model)["refuted"].said.startswith("5 answers of 5 answers drawn from 5")


def test_tokens_that_the_model_has_not_are_refuted(torch: Any, tmp_path: Path) -> None:
    small, large = small_model(), small_model(vocabulary=500)
    found = claims_of(tmp_path, list(sampled(torch, large, 3)), small)
    assert "its tokens are not the model's" in found["refuted"].examples[0]


def test_only_as_many_answers_are_computed_as_are_asked_for(torch: Any, tmp_path: Path) -> None:
    model = small_model()
    found = claims_of(tmp_path, list(sampled(torch, model, 6)), model, limit=2)
    assert (found["consistent"].rollouts, "drawn from 6" in found["consistent"].said) == (2, True)


def test_a_folder_that_is_no_model_proves_nothing(torch: Any, tmp_path: Path) -> None:
    anyio.run(write, tmp_path / "run", list(sampled(torch, small_model(), 1)))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"a pickle, which is not read")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    with open_run(tmp_path / "run") as reader:
        (claim,) = logprob_claims(reader, read_model_folder(folder), NAME, None, list[str]().append)
    assert (claim.verdict, "cannot be loaded here" in claim.said) == ("not_provable", True)
