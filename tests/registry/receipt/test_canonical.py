"""The canonical form: the same bytes from any database, and other bytes for any other record."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from pydantic import BaseModel

from rollouthub import Rollout
from rollouthub.messages import Media, Message, Text
from rollouthub.rollout import AgentRef
from rollouthub.store import open_run
from rollouthub_registry.receipt import canonical
from rollouthub_registry.receipt.canonical import canonical_rollout, json_digest
from rollouthub_registry.receipt.evidence import read_run
from rollouthub_registry.receipt.statement import ReceiptStatement
from tests.store.records import conversation, record, write

FIELDS = Path(__file__).with_name("form_v1.txt")
"""Every field of a record when the form was fixed, by its path."""
RECORDS = [record("g1-0"), record("g1-1"), record("g2-0")]


def bytes_of(rollout: Rollout) -> bytes:
    return canonical_rollout(rollout, is_effective=True)


def test_neither_the_order_of_rows_nor_the_file_makes_a_difference(tmp_path: Path) -> None:
    anyio.run(write, tmp_path / "one", RECORDS)
    anyio.run(write, tmp_path / "other", RECORDS[::-1])
    with closing(sqlite3.connect(tmp_path / "other" / "run.db")) as connection:
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("VACUUM")
    roots: list[str] = []
    for name in ("one", "other"):
        with open_run(tmp_path / name) as reader:
            roots.append(read_run(reader).facts.tree.root)
    assert roots[0] == roots[1]


def test_a_record_that_was_stored_has_the_bytes_it_had_before(tmp_path: Path) -> None:
    anyio.run(write, tmp_path / "run", RECORDS)
    with open_run(tmp_path / "run") as reader:
        assert [bytes_of(each) for each in reader.rollouts()] == [bytes_of(each) for each in RECORDS]


def test_the_bytes_are_json_with_sorted_keys_and_no_spaces() -> None:
    content = bytes_of(RECORDS[0])
    fields: dict[str, Any] = json.loads(content)
    assert json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == content
    assert sorted(fields) == ["effective", "form", "rollout"]
    assert Rollout.model_validate(fields["rollout"]) == RECORDS[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"sample": 1},
        {"attempt": 1},
        {"model": "gpt"},
        {"seed": 1},
        {"answer": ""},
        {"turns": conversation(2, answer_tokens=5)},
        {"agent": AgentRef(name="tool_loop", version="1", config={"a": None})},
        {"started_at": 100.00000000000001},
        {"gaps": ("token_ids",)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_record_has_other_bytes(changes: dict[str, Any]) -> None:
    assert bytes_of(RECORDS[0].model_copy(update=changes)) != bytes_of(RECORDS[0])


def test_what_counts_and_what_kind_a_part_is_are_in_the_bytes() -> None:
    one = RECORDS[0]
    assert canonical_rollout(one, is_effective=False) != bytes_of(one)
    parts = (Text(text="x"), Media(digest="sha256:" + "0" * 64, mime_type="image/png"))
    kinds = {bytes_of(with_content(part)) for part in parts}
    assert len(kinds) == 2
    assert b'"type":"text"' in bytes_of(with_content(parts[0]))


def with_content(part: Text | Media) -> Rollout:
    first = RECORDS[0].turns[0]
    message = Message(role="user", content=(part,))
    return RECORDS[0].model_copy(update={"turns": (first.model_copy(update={"messages": (message,)}),)})


def test_a_field_that_is_added_later_changes_nothing_while_it_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    before = bytes_of(RECORDS[0])
    monkeypatch.setitem(canonical.ADDED_SINCE, "turns.retries", 0)
    monkeypatch.setitem(canonical.ADDED_SINCE, "isolation", "in_process")
    without: Any = json.loads(before)["rollout"]
    del without["isolation"]
    for turn in without["turns"]:
        del turn["retries"]
    assert json.loads(bytes_of(RECORDS[0]))["rollout"] == without
    told = RECORDS[0].model_copy(update={"isolation": "process"})
    assert json.loads(bytes_of(told))["rollout"]["isolation"] == "process"


def test_the_fields_of_a_record_are_those_of_the_form() -> None:
    """Whoever adds a field writes it into the list beside, and one whose default is not None into `ADDED_SINCE`."""
    assert sorted(paths(Rollout)) == FIELDS.read_text().splitlines()


def paths(model: type[BaseModel], before: str = "") -> set[str]:
    """The path of every field below a model of the hub's own that is written."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        found.add(before + name)
        for below in models_in(field.annotation):
            if below.__module__.startswith("rollouthub"):
                found |= paths(below, f"{before}{name}.")
    return found


def models_in(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for part in get_args(annotation) for model in models_in(part)}


def test_a_value_that_json_has_not_makes_no_digest() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_digest(float("nan"))


def test_the_page_names_every_field_of_a_receipt_and_every_claim() -> None:
    page = (Path(__file__).parents[3] / "docs" / "receipts.md").read_text()
    of_in_toto = {"type", "predicate_type", "subject", "sha256"}
    fields = {path.rpartition(".")[2] for path in paths(ReceiptStatement)} - of_in_toto
    sources = [source.read_text() for source in Path(canonical.__file__).parent.glob("*.py")]
    claims = {name for source in sources for name in re.findall(r'(?:Claim|refutes)\(\s*"(\w+)"', source)}
    assert len(fields) > 40
    assert len(claims) > 25
    assert sorted(name for name in fields | claims if f"`{name}`" not in page and f"{name}:" not in page) == []
