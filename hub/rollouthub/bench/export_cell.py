"""One measurement of `hub bench export`, in its own process: a run exported to one format or one trainer's records."""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.export import training_rows
from rollouthub.export.data_set import DataSet
from rollouthub.export.data_set_files import FileFormat, write_file
from rollouthub.export.recipe import Recipe
from rollouthub.rollout import Rollout
from rollouthub.store import RunReader, open_run
from rollouthub.telemetry.memory import resident_bytes
from rollouthub.trainers.trainer_adapter import ConvertingAdapter, trainer_adapters

Convert = Callable[[Sequence[Rollout]], object]


@dataclass(frozen=True)
class ExportFile:
    """An export recipe and a file format."""

    recipe: Recipe
    form: FileFormat = "jsonl"


FILES: Mapping[str, ExportFile] = {
    "sft": ExportFile(Recipe(format="sft")),
    "sft, token ids": ExportFile(Recipe(format="sft", tokens=True)),
    "sft, token ids, Parquet": ExportFile(Recipe(format="sft", tokens=True), "parquet"),
    "dpo": ExportFile(Recipe(format="dpo")),
    "kto": ExportFile(Recipe(format="kto")),
    "groups": ExportFile(Recipe(format="groups")),
    "groups, Parquet": ExportFile(Recipe(format="groups"), "parquet"),
    "atif": ExportFile(Recipe(format="atif")),
    "atif, Parquet": ExportFile(Recipe(format="atif"), "parquet"),
}


def _rows() -> Convert:
    def convert(group: Sequence[Rollout]) -> object:
        rows = [row for rollout in group for row in training_rows(rollout)]
        return [(row.prompt_ids, row.response_ids, row.response_mask, row.response_logprobs) for row in rows]

    return convert


_ROWS = "training rows"


def _adapters() -> Mapping[str, ConvertingAdapter]:
    """Adapters that convert rollouts to a training system's own records, by system name."""
    return {each.system: each for _, each in trainer_adapters() if isinstance(each, ConvertingAdapter)}


def conversions() -> list[str]:
    """Names of the conversions of a group: training rows, and each training system's records (`DataProto` …)."""
    return [_ROWS, *_adapters()]


def measure(run: Path, name: str) -> dict[str, Any]:
    """Export or convert a whole run, and return time, memory and bytes.

    Raises:
        ImportError: the trainer's package is not installed.
    """
    if name in FILES:
        work: Callable[[RunReader, Path], int] = _writing(FILES[name])
    else:
        work = _converting(_rows() if name == _ROWS else _adapters()[name].convert)
    before = resident_bytes()
    with tempfile.TemporaryDirectory(dir=run.parent) as folder, open_run(run) as reader:
        turns = reader.totals().turns
        out = Path(folder) / "out"
        wall, cpu = time.perf_counter(), time.process_time()
        rows = work(reader, out)
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        written = out.stat().st_size if out.exists() else 0
    return {
        "name": name,
        "turns": turns,
        "rows": rows,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "written_mb": round(written / 1e6, 2),
        "start_mb": round(before / 1e6, 1),
        "peak_mb": round(_peak_bytes() / 1e6, 1),
    }


def _writing(file: ExportFile) -> Callable[[RunReader, Path], int]:
    return lambda reader, out: write_file(DataSet([reader], file.recipe), out, file.form)


def _converting(convert: Convert) -> Callable[[RunReader, Path], int]:
    def work(reader: RunReader, out: Path) -> int:
        count = 0
        for records in reader.groups():
            group = [record for record in records if isinstance(record, Rollout)]
            convert(group)
            count += len(group)
        return count

    return work


def _peak_bytes() -> int:
    """Peak resident memory of this process; VmHWM is preferred, as `ru_maxrss` includes memory before exec."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Entry point: `python -m rollouthub.bench.export_cell RUN NAME`."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    run, name = sys.argv[1:]
    try:
        figures = measure(Path(run), name)
    except ImportError as error:  # of a trainer's package
        figures = {"absent": str(error)}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
