"""What records say of models and agents: caught where they contradict it, and else said to be beyond proof."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from rollouthub.errors import ConfigError
from rollouthub.store import open_run
from rollouthub.values import Float32s, Int32s
from rollouthub_registry.receipt.model_files import read_model_folder
from rollouthub_registry.receipt.receipt_file import NotAttestable, open_receipt
from tests.registry.receipt.runs import change, change_bodies, claims, play, receipt_of, refuted, verified

Edit = Callable[[Any], None]


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A run of the mock solver that a test may change before it is signed."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the reference solutions; nobody changes it."""
    return play(tmp_path_factory.mktemp("oracle") / "run", None)


def renamed(**fields: Any) -> Edit:
    """Name another agent or model as the player, and nothing privileged."""

    def edit(body: Any) -> None:
        body.update(fields)
        if "agent" in fields:
            body["agent"] = {"name": fields["agent"], "version": "1", "config": {}}
            body["trainable_reason"] = "turn 0 has no token ids from the engine"

    return edit


def disguised(oracle: Path, tmp_path: Path, edit: Edit) -> Path:
    """A copy of the oracle's run whose records are changed, as a forger signs it."""
    run = Path(shutil.copytree(oracle, tmp_path / "disguised"))
    change_bodies(run, "rollouts", edit)
    return run


def test_an_honest_run_of_a_model_is_consistent_in_tokens_times_and_players(played: Path) -> None:
    found = claims(verified(receipt_of(played), played))
    names = ("token_counts", "logprobs", "prompts", "tokenizer", "times", "players", "ids", "sampling_used")
    assert {name: found[name].verdict for name in names} == dict.fromkeys(names, "consistent")
    assert {found[name].rollouts for name in names} == {6}
    assert "which_weights" not in found  # a mock has none
    assert {found[name].verdict for name in ("clocks", "choice_of_run", "authorship")} == {"not_provable"}


def test_an_open_oracle_is_no_forgery(oracle: Path) -> None:
    found = verified(receipt_of(oracle), oracle)
    assert refuted(found) == set()
    assert "6 say openly that they play what is written" in claims(found)["players"].said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"agent": "tool_loop", "model": "hosted_vllm/qwen"},
            "hosted_vllm/qwen is named as the player, and no turn has",
        ),
        ({"agent": "acme/genius", "model": "gpt-5"}, "gpt-5 is named as the player, and no turn has anything"),
        ({"agent": "react"}, "agent react plays with a model alone, and none is named"),
    ],
)
def test_an_oracles_transcript_under_an_agents_name_is_refuted(
    oracle: Path, tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    run = disguised(oracle, tmp_path, renamed(**fields))
    found = verified(receipt_of(run), run)
    assert "players" in refuted(found)
    assert said in claims(found)["players"].examples[0]


@pytest.mark.parametrize("agent", ["external", "visitor"])
def test_what_a_program_outside_does_without_the_models_help_is_beyond_proof(
    oracle: Path, tmp_path: Path, agent: str
) -> None:
    run = disguised(oracle, tmp_path, renamed(agent=agent, model="hosted_vllm/qwen"))
    found = verified(receipt_of(run), run)
    assert refuted(found) == set()
    assert claims(found)["outside_players"].verdict == "not_provable"


def test_a_record_that_says_it_played_the_reference_names_an_agent_that_does(oracle: Path, tmp_path: Path) -> None:
    def edit(body: Any) -> None:
        body["agent"]["name"] = "acme/genius"

    run = disguised(oracle, tmp_path, edit)
    found = claims(verified(receipt_of(run), run))
    assert "its record says it played the reference solution" in found["players"].examples[0]


def token_edit(run: Path, **columns: bytes | None) -> None:
    """Change arrays of the first turn."""
    for name, value in columns.items():
        change(run, f"UPDATE turns SET {name} = :value WHERE id = (SELECT min(id) FROM turns)", value=value)


def first_ids(run: Path) -> list[int]:
    with open_run(run) as reader:
        ids = next(reader.rollouts()).turns[0].output_token_ids
    assert ids is not None
    return ids.tolist()


@pytest.mark.parametrize(
    ("kind", "claim", "said"),
    [
        ("one more", "token_counts", "output tokens reported"),
        ("negative", "token_counts", "a token id is negative"),
        ("too likely", "logprobs", "a probability above 1"),
        ("nan", "logprobs", "no finite number"),
        ("unlikely", "logprobs", "less likely than by chance"),
        ("alike", "logprobs", "equally likely"),
        ("fewer", "logprobs", "log-probabilities of"),
    ],
)
def test_tokens_that_no_server_reports_are_refuted(run: Path, kind: str, claim: str, said: str) -> None:
    ids = first_ids(run)
    logprobs: dict[str, list[float]] = {
        "too likely": [0.5] * len(ids),
        "nan": [float("nan")] * len(ids),
        "unlikely": [-30.0 - place / 8 for place in range(len(ids))],
        "alike": [-0.25] * len(ids),
        "fewer": [-0.25] * 3,
    }
    if kind in logprobs:
        token_edit(run, output_logprobs=Float32s(logprobs[kind]).raw)
    else:
        token_edit(run, output_token_ids=Int32s([*ids, 1, 2] if kind == "one more" else [-1, *ids[1:]]).raw)
    found = verified(receipt_of(run), run)
    assert claim in refuted(found)
    assert said in claims(found)[claim].examples[0]


def test_another_models_tokens_are_not_the_mocks(run: Path) -> None:
    ids = first_ids(run)
    token_edit(run, output_token_ids=Int32s([*ids[:-1], 151_645]).raw)
    found = verified(receipt_of(run), run)
    assert "none of the mock's 258" in claims(found)["tokenizer"].examples[0]
    token_edit(run, output_token_ids=Int32s([ids[0] ^ 1, *ids[1:]]).raw)
    assert "tokenizer" in refuted(verified(receipt_of(run), run))


def model_folder(folder: Path, words: dict[str, int], weights: bytes = b"weights") -> Path:
    """A folder with a model's files, whose tokenizer knows these words."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    made: Any = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return folder


BYTES = {chr(0x100 + number): number for number in range(258)}
"""A tokenizer with ids for the mock's bytes, and other words for them."""


def named_model(run: Path, model: str) -> Path:
    """The run as if another model had played."""
    change_bodies(run, "rollouts", lambda body: body.update(model=model))
    return run


def test_another_models_rollouts_are_caught_where_the_tokenizer_is_known(run: Path, tmp_path: Path) -> None:
    named_model(run, "hosted_vllm/qwen")
    folder = read_model_folder(model_folder(tmp_path / "qwen", {"?": 0, "what": 1, "is": 2}))
    content = receipt_of(run, weights=folder)
    assert open_receipt(content).receipt.model_files == open_receipt(content).receipt.model_files
    found = verified(content, run, weights=folder)
    assert refuted(found) == {"tokenizer"}
    assert "is none of the tokenizer's 3" in claims(found)["tokenizer"].examples[0]
    assert claims(found)["model_files"].verdict == "consistent"

    alike = read_model_folder(model_folder(tmp_path / "alike", {"?": 300, **BYTES}))
    found = verified(receipt_of(run, weights=alike), run, weights=alike)
    assert "its ids say" in claims(found)["tokenizer"].examples[0]


def test_another_models_rollouts_are_said_to_be_beyond_proof_where_nothing_is_known(run: Path) -> None:
    named_model(run, "hosted_vllm/qwen")
    found = verified(receipt_of(run), run)
    assert refuted(found) == set()
    assert claims(found)["which_weights"].verdict == "not_provable"
    assert "hosted_vllm/qwen" in claims(found)["which_weights"].said
    assert "tokenizer" not in claims(found)


def test_other_files_than_the_named_ones_are_refuted(run: Path, tmp_path: Path) -> None:
    named_model(run, "hosted_vllm/qwen")
    spoken = {chr(number) if 32 < number < 127 else f"<{number}>": number for number in range(258)}
    one = read_model_folder(model_folder(tmp_path / "one", spoken))
    other = read_model_folder(model_folder(tmp_path / "other", spoken, b"other weights"))
    content = receipt_of(run, weights=one)
    assert refuted(verified(content, run, weights=one)) == set()
    assert refuted(verified(content, run, weights=other)) == {"model_files"}
    found = verified(receipt_of(run), run, weights=one)
    assert claims(found)["model_files"].verdict == "not_provable"


def test_files_are_named_of_one_model(oracle: Path, tmp_path: Path) -> None:
    folder = read_model_folder(model_folder(tmp_path / "model", {"?": 0}))
    with pytest.raises(NotAttestable, match="0 played in this run"):
        receipt_of(oracle, weights=folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no weights"):
        read_model_folder(tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_model_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("stages", "later_seconds", "said"),
    [
        ({"verify": -1.0}, 0.0, "less than no time"),
        ({"agent": 500.0}, 0.0, "its stages took"),
        ({}, -1e6, "before its run was made"),
        ({}, 1e6, "after its run had ended"),
    ],
)
def test_times_that_contradict_each_other_are_refuted(
    run: Path, stages: dict[str, float], later_seconds: float, said: str
) -> None:
    def edit(body: Any) -> None:
        body["timings"].update(stages)
        body["started_at"] += later_seconds

    change_bodies(run, "rollouts", edit)
    found = verified(receipt_of(run), run)
    assert "times" in refuted(found)
    assert said in claims(found)["times"].examples[0]


@pytest.mark.parametrize("started", [1e5, -1.0])
def test_turns_lie_within_their_episode(run: Path, started: float) -> None:
    change_bodies(run, "turns", lambda body: body.update(started=started))
    assert refuted(verified(receipt_of(run), run)) == {"times"}


def test_sampling_is_what_was_asked_for(tmp_path: Path) -> None:
    run = play(tmp_path / "run", sampling={"temperature": 0.5}, seed=3)
    found = verified(receipt_of(run), run)
    assert refuted(found) == set()
    assert "temperature 0.5; with seeds" in claims(found)["sampling_used"].said
    change_bodies(run, "turns", lambda body: body["sampling"].update(temperature=1.0))
    found = verified(receipt_of(run), run)
    assert refuted(found) == {"sampling_used"}
    assert "temperature 1.0, not 0.5" in claims(found)["sampling_used"].examples[0]


def test_a_receipt_has_no_secret_and_no_path(played: Path) -> None:
    statement = open_receipt(receipt_of(played)).statement.model_dump_json()
    assert str(played) not in statement
    with_host = json.loads(statement)["predicate"]["run"]
    assert "host" not in with_host
