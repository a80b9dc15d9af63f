"""The benchmark of exports writes a real run into each format, in processes of their own, and says what is absent."""

from pathlib import Path

from rollouthub.bench.export_cell import FILES, conversions, measure
from rollouthub.bench.export_run import TURNS, synthetic_run
from rollouthub.store import open_run


def test_a_run_of_any_size_is_made_once_and_can_be_learnt_from(tmp_path: Path) -> None:
    run = synthetic_run(8, tmp_path)
    made = (run / "run.db").stat().st_mtime_ns
    assert synthetic_run(8, tmp_path) == run
    assert (run / "run.db").stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [run.name]
    with open_run(run) as reader:
        assert (reader.totals().turns, reader.info.repeats) == (8 * TURNS, 4)
        groups = list(reader.groups())
    assert [len(group) for group in groups] == [4, 4]


def test_every_format_has_a_row_for_what_can_be_learnt_from(tmp_path: Path) -> None:
    run = synthetic_run(8, tmp_path)
    for name in FILES:
        figures = measure(run, name)
        assert figures["turns"] == 32
        assert figures["rows"] == 8 or (name == "dpo" and 1 <= figures["rows"] <= 2)
        assert figures["written_mb"] > 0
    assert measure(run, "training rows")["rows"] == 8
    assert set(conversions()) > {"TRL", "veRL", "OpenRLHF", "AReaL", "slime", "SkyRL"}
