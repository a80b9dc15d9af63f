"""`hub attest` and `hub verify`, as people type them."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rollouthub.errors import HubError, UsageError
from rollouthub.store import open_run
from rollouthub_registry.receipt.command import attest, verify
from rollouthub_registry.receipt.merkle import leaf_hash, root_of_proof
from tests.registry.receipt.runs import change
from tests.yardstick import least_seconds

from .runs import play


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, which must be one JSON value and nothing else."""
        return json.loads(self.out)


Hub = Callable[..., Said]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Runs `hub attest` and `hub verify` in an empty folder, with keys of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", os.devnull)
    some = typer.Typer(pretty_exceptions_enable=False)
    some.command("attest")(attest)
    some.command("verify")(verify)

    def call(*arguments: str | Path) -> Said:
        result = CliRunner().invoke(some, [str(argument) for argument in arguments])
        error = result.exception
        if isinstance(error, HubError):
            return Said(2 if isinstance(error, UsageError) else 1, result.stdout, str(error))
        if error is not None and not isinstance(error, SystemExit):
            raise error
        return Said(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A run in `runs/` that a test may change."""
    return Path(shutil.copytree(played, tmp_path / "runs" / "sums"))


@pytest.mark.usefixtures("run")
def test_a_run_is_attested_and_verified_by_its_name(hub: Hub, tmp_path: Path) -> None:
    made = hub("attest", "sums")
    assert (made.code, made.err) == (0, "")
    assert "6 of 6 planned" in made.out
    assert Path("runs/sums.receipt.json").is_file()
    assert (tmp_path / "config" / "rollouthub" / "keys" / "default.pem").stat().st_mode & 0o077 == 0
    found = hub("verify", "runs/sums.receipt.json")
    assert found.code == 0
    assert "nothing is refuted" in found.out
    assert "the key is yours (default)" in found.out
    for heading in ("Proven", "Only consistent", "Not provable"):
        assert heading in found.out
    assert hub("verify", "runs/sums.receipt.json", "-q").out == ""


def test_what_is_refuted_comes_first_and_ends_with_one(hub: Hub, run: Path) -> None:
    hub("attest", "sums")
    change(run, "DELETE FROM rollouts WHERE id = 1")
    found = hub("verify", "runs/sums.receipt.json")
    assert found.code == 1
    assert found.out.startswith("Refuted\n  ✗ root: ")
    quiet = hub("verify", "runs/sums.receipt.json", "-q")
    assert (quiet.code, quiet.out) == (1, "")
    assert "✗ root" in quiet.err
    facts = hub("verify", "runs/sums.receipt.json", "--json").json
    assert facts["refuted"] is True
    assert facts["claims"][0]["verdict"] == "refuted"


@pytest.mark.usefixtures("run")
def test_json_is_one_object_with_every_claim(hub: Hub) -> None:
    made = hub("attest", "sums", "--json", "-o", "a.json", "--key-name", "lab").json
    assert (made["recorded"], made["planned"], made["missing"], made["outcomes"]) == (6, 6, 0, {"scored": 6})
    found = hub("verify", "a.json", "--run", "sums", "--replay", "--limit", "2", "--signer", made["key"], "--json").json
    assert (found["run_id"], found["key"], found["root"]) == (made["run_id"], made["key"], made["root"])
    assert {claim["claim"] for claim in found["claims"]} >= {"signature", "root", "token_counts", "clocks"}
    assert [claim["verdict"] for claim in found["replay"]["claims"]] == ["proven"] * 3
    assert "yours (lab)" in found["claims"][0]["said"]


def test_a_replay_is_reported_apart(hub: Hub, run: Path) -> None:
    hub("attest", run)
    out = hub("verify", f"{run}.receipt.json", "--replay").out
    before, after = out.split("Replayed: verifiers and tool calls again")
    assert "✓ tool_calls" in after
    assert "✓ tool_calls" not in before
    assert "✓ root" in before


def test_a_receipt_in_its_run_is_of_that_run(hub: Hub, run: Path) -> None:
    assert hub("attest", "sums", "-o", run / "receipt.json").code == 0
    assert hub("verify", run / "receipt.json").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("attest none", "there is no run 'none'"),
        ("attest sums --key-name ../x", "a key cannot be named '../x'"),
        ("attest sums -o runs/sums/run.db", "is there and is no receipt"),
        ("attest sums -o none/a.json", "cannot be written"),
        ("attest sums --weights runs", "holds no weights"),
        ("verify none.json", "there is no receipt 'none.json'; `hub attest RUN` writes one"),
        ("verify runs/sums", "is a folder; name the receipt, such as runs/sums.receipt.json"),
        ("verify lone.json", "no run lies beside lone.json; name its directory with --run DIR"),
        ("verify lone.json --run none", "there is no run 'none'"),
        ("verify lone.json --run sums --limit 3", "--limit says what is replayed; add --replay"),
        ("verify lone.json --run sums --env arithmetic", "--env says what is replayed; add --replay"),
        ("verify lone.json --run sums --signer me", "'me' is no id of a key"),
        ("verify /dev/zero --run sums", "is no file"),
        ("verify large.json --run sums", "so it is no receipt"),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_cannot_be_done_says_why(hub: Hub, words: str, said: str) -> None:
    hub("attest", "sums", "-o", "lone.json")
    Path("large.json").write_bytes(b" " * 9_000_000)
    done = hub(*words.split())
    assert done.code == 2
    assert said in done.err


def test_what_is_no_receipt_is_refuted(hub: Hub, run: Path) -> None:
    Path("sums.json").write_text("{}")
    found = hub("verify", "sums.json", "--run", run)
    assert found.code == 1
    assert "nothing in this receipt counts" in found.out


def test_an_incomplete_run_is_attested_only_as_that(hub: Hub, run: Path) -> None:
    change(run, "DELETE FROM rollouts WHERE id = 1")
    refused = hub("attest", "sums")
    assert refused.code == 2
    assert "1 of 6 planned rollouts have no record" in refused.err
    assert not Path("runs/sums.receipt.json").exists()
    assert "1 planned rollouts have no record; the receipt says so" in hub("attest", "sums", "--incomplete").err
    found = hub("verify", "runs/sums.receipt.json")
    assert found.code == 0
    assert "? complete: 1 of 6 planned rollouts have no record" in found.out


def test_a_thousand_rollouts_verify_in_ten_seconds(hub: Hub, tmp_path: Path) -> None:
    run = play(tmp_path / "thousand", limit=1000)
    assert hub("attest", run).code == 0

    def look() -> None:
        assert hub("verify", f"{run}.receipt.json").code == 0

    assert least_seconds(look, 10.0) < 10.0


def test_one_rollout_is_shown_without_the_others(hub: Hub, run: Path) -> None:
    hub("attest", "sums")
    with open_run(run) as reader:
        rollout_id = next(reader.rollouts()).rollout_id
    found = hub("verify", "runs/sums.receipt.json", "--rollout", rollout_id[:12], "--json").json
    proof = found["proof"]
    path = [bytes.fromhex(step) for step in proof["path"]]
    root = root_of_proof(leaf_hash(proof["record"].encode()), proof["place"], proof["count"], path)
    assert root is not None
    assert f"sha256:{root.hex()}" == found["root"]
    assert json.loads(proof["record"])["rollout"]["rollout_id"] == rollout_id
    assert "✓ rollout" in hub("verify", "runs/sums.receipt.json", "--rollout", rollout_id).out
    change(run, "UPDATE rollouts SET body = json_set(body, '$.answer', '7')")
    out = hub("verify", "runs/sums.receipt.json", "--rollout", rollout_id).out
    assert f"✗ rollout: {rollout_id}#0 is not among the rollouts that were signed" in out
    assert "no rollout is named 'none'" in hub("verify", "runs/sums.receipt.json", "--rollout", "none").err
