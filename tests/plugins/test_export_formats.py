"""The contract of export formats: whatever the entry points name, and one that a stranger wrote."""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rollouthub import Message, Score
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.data_set import DataSet, MixedModels
from rollouthub.export.data_set_files import FILE_FORMATS, NothingToWrite, write_file
from rollouthub.export.export_format import ExportFormat, find_export_format
from rollouthub.export.file_formats import file_format
from rollouthub.export.formats.data_columns import Columns, Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need, Refusal
from rollouthub.export.recipe import FORMAT_OPTIONS, Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.plugins.entry_points import EXPORT_FORMATS
from rollouthub.rollout import Intervention
from rollouthub.store import open_run
from tests.export.kept import DIGEST, PICTURE, group, keep, made, shown
from tests.export.made import rollout, turn
from tests.plugins.stranger import names_of, register

STRANGER = "acme/last_words"


class LastWords:
    """What each rollout said last: as somebody else would write a format, from the protocol alone."""

    options = frozenset({"threshold"})
    takes_whole_groups = False
    line_column = None

    def has_tokens(self, recipe: Recipe) -> bool:
        return bool(recipe.tokens)

    def need(self, recipe: Recipe) -> Need:
        return "tokens" if recipe.tokens else "text"

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        ids: Columns = [("output_ids", "ids")] if recipe.tokens else []
        return [("rollout_id", "text"), ("said", "text"), ("reward", "real"), *ids, ("token_exact", "truth")]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        for member in group.rollouts:
            last = member.turns[-1]
            if recipe.threshold is not None and (member.reward or 0.0) < recipe.threshold:
                left_out.add("not_good", member.rollout_id, "it has too little reward")
                continue
            ids = {"output_ids": last.output_token_ids} if recipe.tokens else {}
            said = {"rollout_id": member.rollout_id, "said": last.response.text, "reward": member.reward}
            yield {**said, **ids, "token_exact": last.token_source == "engine"}


@pytest.fixture(params=names_of(EXPORT_FORMATS, STRANGER))
def form(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each format."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, EXPORT_FORMATS, STRANGER, f"{__name__}:LastWords")
    return request.param


def write(run: Path, out: Path, **recipe: Any) -> int:
    with open_run(run) as reader:
        return write_file(DataSet([reader], Recipe(**recipe)), out, file_format(out, FILE_FORMATS))


def good(folder: Path) -> Path:
    """A run of two groups, with tools and pictures."""
    seen = turn(0, [1, 2, 3], [4, 5], messages=(shown(),))
    pictures = [rollout(seen, group="g3", sample=sample, reward=float(sample)) for sample in range(2)]
    words = [*group(1.0, 0.0, tools_digest="sha256:tools"), *group(0.5, 0.75, name="g2")]
    return keep(folder, *words, *pictures, repeats=2, media={DIGEST: PICTURE})


def plain(row: Row) -> Row:
    """A row as JSON reads it back."""
    return json.loads(json.dumps(row, default=lambda value: value.tolist()))


def unpacked(value: Any) -> Any:
    """An object out of a column of JSON."""
    if isinstance(value, list):
        return [unpacked(item) for item in cast(list[Any], value)]
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


@pytest.mark.parametrize("tokens", [None, True])
def test_rows_have_exactly_the_columns_that_were_announced(form: str, tokens: bool | None, tmp_path: Path) -> None:
    found = made(good(tmp_path / "run"), format=form, tokens=tokens)
    assert found.rows
    assert len(set(found.columns)) == len(found.columns)
    for row in found.rows:
        assert set(row) == set(found.columns)
        assert row["token_exact"] is True


def test_lines_and_tables_read_back_as_the_rows_they_were(form: str, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    run, recipe = good(tmp_path / "run"), Recipe(format=form, tokens=True)
    rows = [plain(row) for row in made(run, format=form, tokens=True).rows]
    counts = [write(run, tmp_path / name, format=form, tokens=True) for name in ("out.jsonl", "out.parquet")]
    assert counts == [len(rows), len(rows)]
    column = find_export_format(recipe).line_column
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == (rows if column is None else [row[column] for row in rows])
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [{name: unpacked(value) for name, value in row.items()} for row in table] == rows


def test_what_must_not_be_learnt_from_is_left_out_by_name(form: str, tmp_path: Path) -> None:
    run = keep(
        tmp_path / "run",
        rollout(group="a", reward=None),
        rollout(group="b", told=(Intervention(at=0.1, seat="agent", text="try 7"),)),
        rollout(group="c", turns=()),
        rollout(group="d", trainable=False, trainable_reason="played the reference solution"),
        rollout(group="e", score=Score(reward=1.0, suspect="the clock was set back")),
    )
    refusals = (Refusal.UNSCORED, Refusal.HELPED, Refusal.NO_TURNS, Refusal.PRIVILEGED, Refusal.SUSPECT)
    found = made(run, format=form)
    assert (found.rows, found.left_out) == ([], {refusal.value: 1 for refusal in refusals})


def test_a_rollout_without_the_engine_s_ids_never_gets_any(form: str, tmp_path: Path) -> None:
    text = {"prompt_token_ids": None, "output_token_ids": None, "output_logprobs": None, "token_source": "none"}
    members = [rollout(turn(0, [1], [2], **text), sample=sample, reward=float(sample)) for sample in range(2)]
    found = made(keep(tmp_path / "run", *members, repeats=2), format=form, tokens=True)
    if not found.rows:
        assert found.left_out == {"text_only": 2}
    assert not any(row["token_exact"] for row in found.rows)
    assert "token_ids" not in repr(found.rows)


def test_every_rollout_is_in_a_row_or_counted(form: str, tmp_path: Path) -> None:
    found = made(good(tmp_path / "run"), format=form, tokens=True)
    named = {name for row in found.rows for key, name in row.items() if key.endswith("rollout_id")}
    assert len(named) + found.progress.left_out.total == found.progress.read == 6


def test_nothing_of_a_task_s_secret_half_is_in_a_row(form: str, tmp_path: Path) -> None:
    """A verifier's words may give the answer away; what it says is for people and logs."""
    secret = "the answer is 41"
    said: dict[str, Any] = {"feedback": secret, "metadata": {"expected": secret}}
    records = [
        record.model_copy(update={"score": Score(reward=reward, passed=reward > 0, **said), "answer": "7"})
        for reward, record in enumerate(group(0.0, 1.0))
    ]
    rows = made(keep(tmp_path / "run", *records, repeats=2), format=form).rows
    assert rows
    assert secret not in repr(rows)


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_run_of_nothing_makes_no_row_and_no_file(form: str, name: str, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    run = keep(tmp_path / "run")
    found = made(run, format=form)
    assert (found.rows, found.left_out) == ([], {})
    assert found.columns
    with pytest.raises(NothingToWrite):
        write(run, tmp_path / name, format=form)
    assert not (tmp_path / name).exists()


def many(folder: Path, count: int) -> Path:
    """A run of so many groups, each of some 100 KB of token ids."""
    ids, said = list(range(4000)), [Message(role="assistant", content=words) for words in ("no", "yes")]
    return keep(
        folder,
        *(
            rollout(
                turn(0, ids, [*ids, sample], response=said[sample]), group=f"g{place}", sample=sample, reward=sample
            )
            for place in range(count)
            for sample in range(2)
        ),
        repeats=2,
    )


def peak_bytes(run: Path, form: str) -> int:
    """The most memory that going through a data set takes at a time."""
    with open_run(run) as reader:
        rows = iter(DataSet([reader], Recipe(format=form, tokens=True)))
        next(rows)  # what is set up once
        gc.collect()
        tracemalloc.start()
        try:
            for _ in rows:
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_memory_does_not_grow_with_the_run(form: str, tmp_path: Path) -> None:
    few, lots = (peak_bytes(many(tmp_path / str(count), count), form) for count in (5, 40))
    assert lots < 2 * few + 100_000


def test_options_it_does_not_name_are_refused_and_all_it_names_exist(form: str) -> None:
    found = find_export_format(Recipe(format=form))
    assert found.options <= FORMAT_OPTIONS
    values: dict[str, Any] = {"pairs": "all", "advantage": "mean", "margin": 0.5, "threshold": 0.5}
    values |= dict.fromkeys(("best", "most_pairs", "pack"), 1)
    for option in sorted(FORMAT_OPTIONS):
        tokens = True if option == "pack" else None
        recipe = Recipe(format=form, tokens=tokens, **{option: values.get(option, True)})
        if option in found.options:
            assert isinstance(find_export_format(recipe), ExportFormat)
        else:
            with pytest.raises(ConfigError, match=f"^{option} = .* means nothing to {form}, which takes"):
                find_export_format(recipe)


def test_token_ids_of_two_models_never_share_a_data_set(form: str, tmp_path: Path) -> None:
    one = keep(tmp_path / "one", *group(1.0, 0.0), repeats=2)
    other = keep(tmp_path / "other", *group(1.0, 0.0, model="hosted_vllm/big"), repeats=2)
    with pytest.raises(MixedModels, match=r"other_tokenizer"):
        made(one, other, format=form, tokens=True)
    with pytest.raises(ConfigError, match="token ids of two models mean different things"):
        made(one, other, format=form, tokens=True, mixed_models=True)


def test_a_format_that_does_not_follow_the_protocol_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path / "site", monkeypatch, EXPORT_FORMATS, "acme/half", f"{__name__}:Half")
    with pytest.raises(ConfigError, match=r"'acme/half' of distribution .* does not follow .*ExportFormat"):
        find_export_format(Recipe(format="acme/half"))


class Half:
    """It has no rows."""

    options = frozenset[str]()


def test_a_wrong_name_is_met_with_the_right_one(form: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{form}'"):
        find_export_format(Recipe(format=f"{form}s"))
