"""`hub export` for trainers: what is written, what is left out and said to be, and what is refused."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rollouthub.cli.export.format_names import RECORDS
from rollouthub.cli.export.record_files import FORMATS
from rollouthub.cli.main import app
from rollouthub.plugins.entry_points import EXPORT_FORMATS
from tests.export.kept import damage, group, keep
from tests.plugins.stranger import write_distribution
from tests.plugins.test_export_formats import STRANGER, LastWords

from .conftest import Hub, started


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two groups of two."""
    return keep(tmp_path / "run", *group(1.0, 0.0), *group(0.5, 0.5, name="g2"), repeats=2)


def test_the_command_knows_every_format_of_records() -> None:
    assert RECORDS == FORMATS


@pytest.mark.parametrize(("option", "begun", "offered"), [("to", "k", ["kto"]), ("advantage", "l", ["leave_one_out"])])
def test_a_shell_completes_what_an_option_takes(option: str, begun: str, offered: list[str]) -> None:
    command: Any = get_command(app)
    export = command.commands["export"]
    context = export.make_context("export", ["run"])
    (asked,) = [each for each in export.get_params(context) if each.opts == [f"--{option}"]]
    assert [item.value for item in asked.shell_complete(context, begun)] == offered


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_data_set_is_written_and_what_is_left_out_is_said(hub: Hub, run: Path, tmp_path: Path) -> None:
    done = hub("export", "run", "--to", "sft", "--passed", "--best", "1", "-o", "sft.jsonl")
    assert done.code == 0, done.err
    assert [row["rollout_id"] for row in lines(tmp_path / "sft.jsonl")] == ["g1-0"]
    assert "1 rows written to sft.jsonl, of 1 of 4 rollouts, 1 of them token-exact" in done.err
    assert "left out: 3 for passed  g1-1: it did not pass" in done.err
    assert done.out == ""


def test_json_sums_up_every_rollout(hub: Hub, run: Path, tmp_path: Path) -> None:
    done = hub("export", "run", "--to", "dpo", "--margin", "0.5", "-o", "dpo.jsonl", "--json")
    found = done.json
    assert (found["format"], found["file"], found["file_format"]) == ("dpo", "dpo.jsonl", "jsonl")
    assert (found["rows"], found["used"], found["rollouts"], found["groups"]) == (1, 2, 4, 2)
    assert (found["left_out"], found["broken"]) == ({"no_pair": 2}, [])
    assert found["bytes"] == (tmp_path / "dpo.jsonl").stat().st_size


def test_records_are_written_as_the_name_of_the_file_says(hub: Hub, run: Path, tmp_path: Path) -> None:
    done = hub("export", "run", "-o", "rewards.csv")
    assert (done.code, done.out, done.err) == (0, "", "4 rollouts written to rewards.csv\n")
    text = (tmp_path / "rewards.csv").read_text()
    assert text.startswith("run_id,rollout_id,")
    assert hub("export", "run", "--to", "csv", "-o", "-").out == text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rewards.csv", "run"]


def test_lines_go_to_stdout_where_no_file_is_named(hub: Hub, run: Path) -> None:
    done = hub("export", "run", "--to", "groups", "--range", "0.1", "--advantage", "leave_one_out", "-o", "-")
    assert [json.loads(line)["advantage"] for line in done.out.splitlines()] == [1.0, -1.0]
    assert "left out: 2 for range" in done.err


def test_nothing_to_write_is_a_failure_and_no_file(hub: Hub, run: Path, tmp_path: Path) -> None:
    done = hub("export", "run", "--to", "sft", "--min-reward", "3", "-o", "sft.jsonl")
    assert done.code == 1
    assert "nothing to write: no row of 4 rollouts" in done.err
    assert not (tmp_path / "sft.jsonl").exists()


def test_a_damaged_record_is_named_and_the_others_are_written(hub: Hub, run: Path, tmp_path: Path) -> None:
    damage(run, "UPDATE rollouts SET body = '{}' WHERE id = 1")
    done = hub("export", "run", "--to", "sft", "-o", "sft.jsonl", "--json")
    assert done.code == 1
    assert [entry["rollout_id"] for entry in done.json["broken"]] == ["g1-0"]
    assert done.json["left_out"] == {"corrupt": 1}
    assert len(lines(tmp_path / "sft.jsonl")) == 3


@pytest.mark.live
def test_runs_of_two_models_are_put_together_only_as_words_and_when_asked(hub: Hub, run: Path, tmp_path: Path) -> None:
    keep(tmp_path / "other", *group(1.0, 0.0, model="hosted_vllm/big"), repeats=2)
    complaint = hub("export", "run", "other", "--to", "groups", "-o", "out.jsonl").refused()
    assert "other_tokenizer" in complaint
    assert "export each run by itself" in complaint
    assert "--mixed-models" in hub("export", "run", "other", "--to", "sft", "-o", "out.jsonl").refused()
    assert not (tmp_path / "out.jsonl").exists()
    assert hub("export", "run", "other", "--to", "sft", "--mixed-models", "-o", "out.jsonl").code == 0
    assert len(lines(tmp_path / "out.jsonl")) == 6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to", "sftt"), ["did you mean 'sft'", "groups"]),
        (("--to", "jsonl", "--range", "1"), ["--range means nothing to jsonl"]),
        (("--to", "sft", "-o", "missing/x.jsonl"), ["there is no folder", "missing; make it first"]),
        # A process each: three do from day to day.
        pytest.param(
            ("--to", "sft", "--format", "parqet", "-o", "x"), ["did you mean 'parquet'"], marks=pytest.mark.live
        ),
        pytest.param(("--to", "sft", "--format", "parquet"), ["name it with -o"], marks=pytest.mark.live),
        pytest.param(("--to", "sft", "-o", "x.csv"), ["end it in .jsonl, .ndjson or .parquet"], marks=pytest.mark.live),
        pytest.param(("-o", "x.json"), ["did you mean 'x.jsonl'?"], marks=pytest.mark.live),
        pytest.param(("--turns", "-o", "x.csv"), ["--to parquet -o turns.parquet"], marks=pytest.mark.live),
        pytest.param(("--no-tokens", "-o", "x.csv"), ["mean nothing to csv"], marks=pytest.mark.live),
        pytest.param(("--to", "sft", "--json"), ["name a file with -o"], marks=pytest.mark.live),
        pytest.param(("run", "--to", "sft"), ["named twice"], marks=pytest.mark.live),
        pytest.param(("run", "--to", "jsonl"), ["one run"], marks=pytest.mark.live),
    ],
    ids=str,
)
def test_a_wrong_option_is_met_with_the_right_one(
    hub: Hub, run: Path, arguments: tuple[str, ...], says: list[str]
) -> None:
    complaint = hub("export", "run", *arguments).refused()
    for words in says:
        assert words in complaint


@pytest.mark.live
def test_an_interrupted_export_leaves_no_half_file(tmp_path: Path) -> None:
    keep(tmp_path / "run", *(record for name in range(3000) for record in group(1.0, name=f"g{name}")))
    out = tmp_path / "out"
    out.mkdir()
    with started(tmp_path, "export", "run", "--to", "groups", "-o", "out/groups.jsonl") as process:
        while not any(out.iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert list(out.iterdir()) == []


def test_the_command_offers_and_writes_a_stranger_s_format(hub: Hub, tmp_path: Path) -> None:
    site = write_distribution(tmp_path / "site", EXPORT_FORMATS, STRANGER, f"{LastWords.__module__}:LastWords")
    path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[2]}"}
    keep(tmp_path / "run", *group(1.0, 0.0), repeats=2)
    assert STRANGER in hub("export", "--help", **path).out
    assert "did you mean 'acme/last_words'" in hub("export", "run", "--to", "acme/last_word", **path).refused()
    assert "means nothing to acme/last_words" in hub("export", "run", "--to", STRANGER, "--best", "1", **path).refused()
    done = hub("export", "run", "--to", STRANGER, "-o", "out.jsonl", **path)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["rollout_id"], row["said"]) for row in rows] == [("g1-0", "0!"), ("g1-1", "1!")]
