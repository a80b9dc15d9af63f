"""Going on after a kill: nothing lost, nothing twice, nothing mixed."""

from pathlib import Path

import pytest

from rollouthub.analysis.scoring.line_files import check_output_file, output_file
from rollouthub.errors import ConfigError, RunDirectoryError
from rollouthub.hosting import InProcessHost
from tests.analysis.scoring.lines import Echo, EchoConfig, read_lines, score_lines, write_lines

LINES = [{"task_id": f"test/{index % 100}", "place": index, "completion": str(index % 3)} for index in range(2000)]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.999, 1.0])
async def test_an_output_cut_anywhere_is_completed(suffix: str, share: float, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", LINES)
    whole = await score_lines(source, tmp_path / f"whole{suffix}")
    raw = (tmp_path / f"whole{suffix}").read_bytes()
    cut = tmp_path / f"cut{suffix}"
    cut.write_bytes(raw[: int(share * len(raw))])
    tally = await score_lines(source, cut, resume=True)
    assert read_lines(cut) == read_lines(tmp_path / f"whole{suffix}")
    assert tally.as_json() | {"resumed": 0} == whole.as_json()
    assert tally.resumed == (2000 if share == 1.0 else tally.resumed)


async def test_resuming_without_an_output_starts_one(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", LINES[:5])
    await score_lines(source, tmp_path / "out.jsonl", resume=True)
    assert len(read_lines(tmp_path / "out.jsonl")) == 5


async def test_bad_lines_and_faults_are_counted_again(tmp_path: Path) -> None:
    lines = ["{", {"task_id": "test/1", "completion": "crash"}, {"task_id": "test/1", "completion": "1", "x": 1}]
    source = write_lines(tmp_path / "in.jsonl", [*lines, '{"task_id": "test/1", "completion": "1", "x": NaN}'])
    before = await score_lines(source, tmp_path / "out.jsonl", skip_bad=True)
    after = await score_lines(source, tmp_path / "out.jsonl", skip_bad=True, resume=True)
    assert after.as_json() == before.as_json() | {"resumed": 4}


async def test_another_inputs_output_is_refused(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", LINES[:50])
    await score_lines(source, tmp_path / "out.jsonl")
    other = write_lines(tmp_path / "other.jsonl", [*LINES[:20], {**LINES[20], "place": -1}, *LINES[21:50]])
    before = (tmp_path / "out.jsonl").read_bytes()
    with pytest.raises(RunDirectoryError, match=r"out\.jsonl:21 does not come from line 21"):
        await score_lines(other, tmp_path / "out.jsonl", resume=True)
    with pytest.raises(RunDirectoryError, match="more lines than the input"):
        await score_lines(write_lines(tmp_path / "short.jsonl", LINES[:10]), tmp_path / "out.jsonl", resume=True)
    assert (tmp_path / "out.jsonl").read_bytes() == before


class Stricter(Echo):
    """The same tasks, another verifier."""

    version = "2"


async def test_an_output_of_another_verifier_is_refused(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in.jsonl", LINES[:50])
    await score_lines(source, tmp_path / "out.jsonl", limit=10)
    host = InProcessHost("echo", Stricter, EchoConfig())
    with pytest.raises(RunDirectoryError, match="another version of the verifier"):
        await score_lines(source, tmp_path / "out.jsonl", resume=True, host=host)


def test_an_output_that_is_there_is_refused_and_one_that_is_written_too(tmp_path: Path) -> None:
    output = str(tmp_path / "out.jsonl")
    with output_file(output, resume=False):
        with pytest.raises(ConfigError, match="--resume"):
            check_output_file(output, resume=False)
        check_output_file(output, resume=True)
        with pytest.raises(ConfigError, match="--resume"), output_file(output, resume=False):
            pass
        with pytest.raises(RunDirectoryError, match="another process"), output_file(output, resume=True):
            pass
