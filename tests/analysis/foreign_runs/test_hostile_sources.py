"""Files that somebody made to harm their reader: each ends with a line that says why, and harms nothing."""

import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from rollouthub.analysis.foreign_runs.bounded_zip import BoundedZip
from rollouthub.analysis.foreign_runs.open_foreign import read_whole
from rollouthub.errors import ConfigError
from rollouthub.rollout import Rollout
from rollouthub.store import RunInfo, open_run
from tests.analysis.foreign_runs.sources import (
    ANSWER,
    USER,
    harbor,
    inspect,
    inspect_head,
    inspect_sample,
    inspect_samples,
    lines,
    tau2,
    verifiers,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(path: Path) -> tuple[RunInfo, list[Rollout]]:
    """The run of a source."""
    with open_run(read_whole(path)) as run:
        return run.info, list(run.rollouts())


def log_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An `.eval` with these members after its header."""
    with zipfile.ZipFile(path, "w", method) as packed:
        packed.writestr("header.json", json.dumps(inspect_head(1, 1.0)))
        for name, content in members.items():
            packed.writestr(name, content)
    return path


def test_a_member_larger_than_the_bound_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = json.dumps(inspect_sample("a", 1, "C")).encode()
    path = log_of(tmp_path / "x.eval", {"samples/b_epoch_1.json": b" " * 200_000_000, "samples/a_epoch_1.json": good})
    info, records = read(path)
    assert [record.task.id for record in records] == ["a"]
    assert any("samples/b_epoch_1.json was left out: it unpacks to 200,000,000 bytes" in line for line in info.remarks)


def test_a_zip_that_claims_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollouthub.analysis.foreign_runs.bounded_zip._FREE", 1 << 20)
    path = log_of(tmp_path / "x.eval", {f"samples/{n}_epoch_1.json": b"0" * 10_000_000 for n in range(9)})
    monkeypatch.setattr("rollouthub.analysis.foreign_runs.bounded_zip._RATIO", 100)
    with pytest.raises(ConfigError, match=r"claims to unpack to .* zip bomb"):
        read_whole(path)


def test_a_directory_whose_size_is_said_in_its_second_end_only_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_of(tmp_path / "x.eval", {f"samples/{n}_epoch_1.json": b"{}" for n in range(9)})
    whole = path.read_bytes()
    body, end = whole[:-22], whole[-22:]
    count, size, start = struct.unpack("<HLL", end[10:20])
    wide = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(body), 1)
    path.write_bytes(body + wide + locator + end[:12] + struct.pack("<L", 1) + end[16:])
    assert len(BoundedZip(path).names) == 10
    monkeypatch.setattr("rollouthub.analysis.foreign_runs.bounded_zip._MOST_DIRECTORY", size - 1)
    with pytest.raises(ConfigError, match=f"has a directory of {size:,} bytes; more than"):
        BoundedZip(path)


def test_a_member_that_lies_about_its_size_is_left_out(tmp_path: Path) -> None:
    path = log_of(tmp_path / "x.eval", {"samples/a_epoch_1.json": b" " * 3_000_000})
    content = bytearray(path.read_bytes())
    place = content.rfind(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<L", 10)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"checksum|more than"):
        BoundedZip(path).read("samples/a_epoch_1.json", most=1_000_000)
    info, records = read(path)
    assert records == []
    assert any("samples/a_epoch_1.json was left out" in line for line in info.remarks)


def test_names_that_lead_elsewhere_lead_nowhere(tmp_path: Path) -> None:
    good = json.dumps(inspect_sample("a", 1, "C")).encode()
    names = ("../../evil_epoch_1.json", "/etc/evil_epoch_1.json", "samples/../../evil_epoch_1.json")
    path = log_of(tmp_path / "x.eval", {**dict.fromkeys(names, good), "samples/a_epoch_1.json": good})
    before = set(tmp_path.rglob("*evil*"))
    _, records = read(path)
    assert len(records) == 1
    assert set(tmp_path.rglob("*evil*")) == before == set()


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{}", b'{"id": NaN}', b"\xff\xfe", b'{"id": "a", "messages": 5}'])
def test_samples_that_are_none_are_left_out_one_by_one(tmp_path: Path, content: bytes) -> None:
    good = json.dumps(inspect_sample("a", 1, "C")).encode()
    path = log_of(tmp_path / "x.eval", {"samples/b_epoch_1.json": content, "samples/a_epoch_1.json": good})
    info, records = read(path)
    assert [record.task.id for record in records] == ["a"]
    assert info.bad_rows == 1
    assert any("samples/b_epoch_1.json was left out" in line for line in info.remarks)


def test_a_log_that_is_cut_short_keeps_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "sums.json"
    whole = json.dumps({**inspect_head(4, 0.75), "samples": inspect_samples()})
    path.write_text(whole[: len(whole) * 2 // 3])
    info, records = read(path)
    assert 0 < len(records) < 4
    assert info.status == "failed"
    assert info.stopped is not None
    assert "could not be read on: " in info.stopped
    assert "ends within its JSON" in info.stopped


def test_a_zip_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = inspect(tmp_path).path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="has no directory at its end"):
        read_whole(path)


def test_rewards_that_are_no_numbers_are_no_scores(tmp_path: Path) -> None:
    said = [USER, ANSWER]
    given = [float("nan"), float("inf"), 1e999, "1", True, [1], None]
    _, records = read(lines(tmp_path / "x.jsonl", *({"messages": said, "reward": each} for each in given)))
    assert len(records) == len(given)
    assert [record.reward for record in records] == [None] * len(given)
    assert {record.outcome.kind for record in records} == {"verifier_fault"}


def test_words_that_are_no_text_are_mended(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        r'{"messages": [{"role": "user", "content": "\ud800 \u001b[31m"}, {"role": "assistant", "content": "\udfff"}]}'
    )
    _, [record] = read(path)
    assert record.turns[0].response.text


def test_a_job_reads_no_file_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    job = harbor(tmp_path).path
    target = job / "a__1" / "agent" / "trajectory.json"
    secret.write_bytes(target.read_bytes())
    target.unlink()
    target.symlink_to(secret)
    os.mkfifo(job / "a__2" / "agent" / "pipe")
    info, records = read(job)
    assert len(records) == 4
    assert any("a__1 was left out: its trajectory.json cannot be read" in line for line in info.remarks)


@pytest.mark.parametrize("linked", ["agent", "steps", "steps/one/agent"])
def test_a_job_reads_no_folder_through_a_link(tmp_path: Path, linked: str) -> None:
    job = harbor(tmp_path).path
    trial = job / "a__1"
    if linked != "agent":
        result = json.loads((trial / "result.json").read_text())
        (trial / "result.json").write_text(json.dumps(result | {"step_results": [{"step_name": "one"}]}))
        (trial / "steps" / "one").mkdir(parents=True)
        (trial / "agent").rename(trial / "steps" / "one" / "agent")
    elsewhere = (trial / linked).rename(tmp_path / "elsewhere")
    (trial / linked).symlink_to(elsewhere)
    info, records = read(job)
    assert len(records) == 4
    assert any(f"a__1 was left out: its folder {linked}" in line for line in info.remarks)


def test_results_read_no_file_through_a_link_and_a_link_to_results_is_followed(tmp_path: Path) -> None:
    folder = verifiers(tmp_path).path
    (tmp_path / "latest").symlink_to(folder)
    (tmp_path / "rows.jsonl").symlink_to(folder / "results.jsonl")
    assert len(read(tmp_path / "latest")[1]) == len(read(tmp_path / "rows.jsonl")[1]) == 4
    (folder / "results.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (folder / "results.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    info, records = read(folder)
    assert (records, info.status) == ([], "failed")
    assert info.stopped is not None
    assert "results.jsonl' cannot be read" in info.stopped


def test_a_pipe_a_folder_or_a_link_among_simulations_is_left_out(tmp_path: Path) -> None:
    path = tau2(tmp_path).path
    whole = json.loads(path.read_text())
    simulation, *_ = whole.pop("simulations")
    path.write_text(json.dumps({**whole, "simulation_index": [{"reward": 1.0}], "simulations": []}))
    place = tmp_path / "simulations"
    place.mkdir()
    (place / "a.json").write_text(json.dumps(simulation))
    (place / "b.json").mkdir()
    os.mkfifo(place / "c.json")
    (place / "d.json").symlink_to(place / "a.json")
    info, records = read(tmp_path)
    assert (len(records), info.bad_rows) == (1, 3)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="no run of the hub"):
        read_whole(tmp_path / "x.jsonl")


def test_a_name_of_a_task_without_end_is_cut(tmp_path: Path) -> None:
    row = {"id": "n" * 100_000, "messages": [USER, ANSWER]}
    _, [record] = read(lines(tmp_path / "x.jsonl", row))
    assert len(record.task.id) <= 300
