"""The contract of readers of other tools' runs: whatever the entry points name, and one that a stranger wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, found
from rollouthub.analysis.foreign_runs.open_foreign import read_whole
from rollouthub.analysis.foreign_runs.run_format import (
    ForeignFacts,
    ForeignRun,
    FoundRollout,
    RunFormat,
    Unreadable,
    find_format,
    format_of_source,
)
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.messages import assistant, user
from rollouthub.plugins.entry_points import RUN_READERS
from rollouthub.store import open_run
from tests.analysis.foreign_runs.sources import SOURCES, WrittenRun
from tests.plugins.stranger import names_of, register

STRANGER = "acme/cards"


class Cards:
    """Cards of a question, an answer and a mark, from the protocol alone."""

    name = STRANGER

    def recognises(self, path: Path) -> bool:
        """Whether a file is of cards."""
        return path.suffix == ".cards"

    def read(self, path: Path) -> ForeignRun:
        """A card a line."""
        facts = ForeignFacts(tool="cards 1", environments=("cards",), model="small", missing=("times",))
        return ForeignRun(facts, self._entries(path))

    def _entries(self, path: Path) -> Iterator[FoundRollout | Unreadable]:
        for number, line in enumerate(path.read_text().splitlines()):
            asked, answered, mark = line.split("|")
            said = [SaidMessage(user(asked)), SaidMessage(assistant(answered), is_sampled=True)]
            reward = float(mark) if mark else None
            yield found(ForeignEpisode("cards", str(number), asked, said, model="small", reward=reward), "cards")


def cards(folder: Path) -> WrittenRun:
    """A file of cards."""
    path = folder / "sums.cards"
    path.write_text("1 + 1|2|1\n1 + 2|4|0\n2 + 2|4|\n")
    return WrittenRun(path, 3, (1.0, 0.0), turns=1, calls=0)


@pytest.fixture(params=names_of(RUN_READERS, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each reader."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, RUN_READERS, STRANGER, f"{__name__}:Cards")
    return request.param


@pytest.fixture
def source(name: str, tmp_path: Path) -> WrittenRun:
    """A source of the format."""
    folder = tmp_path / "source"
    folder.mkdir()
    return (SOURCES | {STRANGER: cards})[name](folder)


def test_its_source_is_recognised_by_it_alone(name: str, source: WrittenRun) -> None:
    assert isinstance(find_format(name), RunFormat)
    assert find_format(name).name == name
    assert format_of_source(source.path).name == name
    assert [other for other in SOURCES if find_format(other).recognises(source.path)] == [name][: name in SOURCES]


def test_what_it_reads_is_what_its_tool_says(name: str, source: WrittenRun) -> None:
    with open_run(read_whole(source.path)) as run:
        records = list(run.rollouts())
        info = run.info
    assert info.status == "finished"
    assert info.remarks == ()
    assert len(records) == source.count
    assert tuple(record.reward for record in records if record.reward is not None) == source.rewards
    assert len(records[0].turns) == source.turns
    assert [len(turn.tool_calls) for turn in records[0].turns][:1] == [source.calls]
    assert {record.model for record in records} == {source.model}
    assert info.read_from is not None
    assert info.read_from.format == name
    assert info.read_from.missing


def test_an_unscored_rollout_is_none_and_no_zero(name: str, source: WrittenRun) -> None:
    with open_run(read_whole(source.path)) as run:
        unscored = [record for record in run.rollouts() if record.score is None]
        assert len(unscored) == source.count - len(source.rewards)
        means = run.means()
    assert means.scored == len(source.rewards)
    assert means.mean_reward == pytest.approx(sum(source.rewards) / len(source.rewards))
    assert all(record.faults for record in unscored)


def test_nothing_is_trainable_without_token_ids(name: str, source: WrittenRun) -> None:
    with open_run(read_whole(source.path)) as run:
        records = list(run.rollouts())
    assert not any(record.trainable for record in records)
    assert all(record.trainable_reason for record in records)


def test_the_source_stays_as_it_was(name: str, source: WrittenRun) -> None:
    def state() -> dict[str, tuple[bytes, int]]:
        files = [source.path] if source.path.is_file() else sorted(source.path.rglob("*"))
        return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files if file.is_file()}

    before = state()
    read_whole(source.path)
    assert state() == before


def test_what_is_no_run_is_recognised_by_none(name: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    contents = {"empty": b"", "zeros": b"\0" * 4096, "words": b"hello\n", "list": b"[1, 2]", "deep": b"[" * 100_000}
    for stem, content in contents.items():
        for suffix in (".json", ".jsonl", ".eval", ""):
            path = odd / f"{stem}{suffix}"
            path.write_bytes(content)
            assert not find_format(name).recognises(path)
    assert not find_format(name).recognises(odd)
    assert not find_format(name).recognises(odd / "missing")


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_format(f"{name}s")


def test_what_no_reader_recognises_is_refused_with_the_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    with pytest.raises(ConfigError, match=r"no run of the hub, and of no format .*harbor, inspect"):
        format_of_source(tmp_path / "notes.txt")


class Blank:
    """It reads nothing."""

    name = "acme/blank"


def test_what_is_no_reader_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, RUN_READERS, "acme/blank", f"{__name__}:Blank")
    with pytest.raises(ConfigError, match=r"'acme/blank' of distribution .* does not follow .*RunFormat"):
        find_format("acme/blank")
