"""Receipts against runs that were changed: everything that was signed is caught, byte by byte."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope as ReferenceEnvelope

from rollouthub.errors import RunDirectoryError
from rollouthub.store import open_run
from rollouthub_registry.receipt.evidence import read_run
from rollouthub_registry.receipt.receipt_file import NotAttestable, open_receipt
from rollouthub_registry.receipt.statement import ReceiptStatement
from rollouthub_registry.trust.signatures import sign_payload
from rollouthub_registry.trust.trust_error import SignatureRefused
from tests.registry.receipt.runs import (
    KEY,
    STRANGER,
    change,
    change_bodies,
    claims,
    copy_of,
    play,
    receipt_of,
    refuted,
    verified,
)
from tests.registry.trust.test_signatures import reference_key


@pytest.fixture
def run(failing: Path, tmp_path: Path) -> Path:
    """A run with failures that a test may change."""
    return Path(shutil.copytree(failing, tmp_path / "run"))


def test_an_honest_run_is_proven_as_a_whole(failing: Path) -> None:
    found = verified(receipt_of(failing), failing)
    assert refuted(found) == set()
    proven = {claim.name for claim in found.claims if claim.verdict == "proven"}
    assert {"signature", "run", "root", "counts", "settings", "environments", "files", "rows", "attempts"} <= proven
    counts = open_receipt(receipt_of(failing)).receipt.run.counts
    assert counts.planned == counts.recorded == 12
    assert counts.outcomes["model_failed"] > 0  # pyright: ignore[reportArgumentType]  # a StrEnum's value
    assert counts.attempts > counts.recorded
    assert f"{counts.attempts:,} attempts" in claims(found)["root"].said


def test_one_flipped_bit_of_a_receipt_is_caught_wherever_it_is(played: Path) -> None:
    content = receipt_of(played)
    for place in range(len(content)):
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        with pytest.raises(SignatureRefused):
            open_receipt(flipped)
    for other in (content[:-1], content + b"\n", b"", b"{}", b"[" * 100_000, json.dumps(json.loads(content)).encode()):
        assert refuted(verified(other, played)) == {"signature"}


COLUMNS = """
rollouts: rollout_id group_id environment split task_id sample attempt effective outcome stop reward passed turns
 tool_calls prompt_tokens output_tokens seconds queue_seconds setup_seconds agent_seconds model_seconds tool_seconds
 verify_seconds close_seconds started_at finished_at fault trainable suspect body
turns: body prefix_turn prefix_length prompt_token_ids output_token_ids output_logprobs
tools: digest definitions
meta: run_id status created_at finished_at planned bad_rows hub_version resolved host
"""
CELLS = [
    (table, column)
    for table, _, columns in (line.partition(":") for line in COLUMNS.replace("\n ", " ").strip().splitlines())
    for column in columns.split()
]


@pytest.mark.parametrize(("table", "column"), CELLS, ids=lambda word: word)
def test_one_flipped_bit_of_a_run_is_caught(run: Path, table: str, column: str) -> None:
    content = receipt_of(run)
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        flip(connection, table, column)
    assert refuted(verified(content, run)) - {"signature"}


def flip(connection: sqlite3.Connection, table: str, column: str) -> None:
    """Flip one bit of one value."""
    cell, where = (column, f"{column} IS NOT NULL") if table != "meta" else ("value", f"key = '{column}'")
    key = {"rollouts": "id", "turns": "id", "tools": "digest", "meta": "key"}[table]
    if column == "prefix_length":
        where = "prefix_turn IS NOT NULL"  # no other is looked at
    row_id, value = connection.execute(
        f"SELECT {key}, {cell} FROM {table} WHERE {where} ORDER BY {key} DESC LIMIT 1"
    ).fetchone()
    changed: Any
    if isinstance(value, bytes | str):
        raw = value.encode() if isinstance(value, str) else value
        place = len(raw) // 2
        raw = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        changed = raw.decode(errors="replace") if isinstance(value, str) else raw
    else:
        # The attempt beside may be there, and of a longer prefix there is no more than all.
        bit = {"attempt": 4, "prefix_length": 256}.get(column, 1)
        changed = value ^ bit if isinstance(value, int) else value * (1 + 2**-52) if value else 2.0**-52
    assert changed != value
    connection.execute(f"UPDATE {table} SET {cell} = ? WHERE {key} = ?", (changed, row_id))


@pytest.mark.parametrize("name", ["hub.lock", "run.toml", "resolved.json"])
def test_a_changed_file_beside_the_records_is_caught(run: Path, name: str) -> None:
    content = receipt_of(run)
    with (run / name).open("ab") as file:
        file.write(b" ")
    found = verified(content, run)
    assert refuted(found) == {"files"}
    (run / name).unlink()
    assert refuted(verified(content, run)) == {"files"}
    assert name in claims(found)["files"].examples[0]


def test_a_dropped_failure_is_caught(run: Path) -> None:
    content = receipt_of(run)
    drop = "DELETE FROM rollouts WHERE id = (SELECT max(id) FROM rollouts WHERE effective AND outcome = 'model_failed')"
    change(run, drop, "UPDATE meta SET value = '11' WHERE key = 'planned'")
    found = verified(content, run)
    assert {"root", "counts"} <= refuted(found)
    assert "was signed, and is not in the run" in claims(found)["root"].examples[0]


def test_a_failure_that_was_dropped_before_is_not_attested_unless_the_receipt_says_so(run: Path) -> None:
    failed = "(SELECT rollout_id FROM rollouts WHERE effective AND outcome = 'model_failed' LIMIT 1)"
    change(run, f"DELETE FROM rollouts WHERE rollout_id = {failed}")
    with pytest.raises(NotAttestable, match=r"1 of 12 planned rollouts have no record.*--incomplete"):
        receipt_of(run)
    found = verified(receipt_of(run, takes_incomplete=True), run)
    complete = claims(found)["complete"]
    assert (complete.verdict, found.signed and found.signed.receipt.run.counts.missing) == ("not_provable", 1)
    assert "what became of them is not known" in complete.said


def test_a_sample_that_was_dropped_with_its_plan_leaves_a_gap(tmp_path: Path) -> None:
    run = play(tmp_path / "run", "mock/solver?accuracy=0.5", repeats=3, limit=3)
    change(
        run,
        "DELETE FROM rollouts WHERE sample = 2 AND task_id = 'test/1'",
        "UPDATE meta SET value = 8 WHERE key = 'planned'",
    )
    found = verified(receipt_of(run), run)
    assert refuted(found) == {"samples"}
    assert "sample 2 of 3 is not there" in claims(found)["samples"].examples[0]


def test_a_swapped_rollout_is_caught(run: Path) -> None:
    content = receipt_of(run)
    swap(run)
    assert "root" in refuted(verified(content, run))


def test_a_rollout_that_was_swapped_before_signing_stands_in_the_place_of_another(run: Path) -> None:
    swap(run)
    found = verified(receipt_of(run), run)
    assert {"ids"} <= refuted(found)
    assert "seed" in claims(found)["ids"].examples[0] or "task" in claims(found)["ids"].examples[0]


def swap(run: Path) -> None:
    """Put what was played on one task under the id of another."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        alone = "rollout_id IN (SELECT rollout_id FROM rollouts GROUP BY rollout_id HAVING count(*) = 1)"
        query = f"SELECT id, rollout_id, group_id, body FROM rollouts WHERE outcome = 'scored' AND {alone} LIMIT 2"
        one, other = connection.execute(query).fetchall()
        for row, (_, rollout_id, group_id, _) in ((one, other), (other, one)):
            body = {**json.loads(row[3]), "rollout_id": rollout_id, "group_id": group_id}
            connection.execute(
                "UPDATE rollouts SET rollout_id = ?, group_id = ?, body = ? WHERE id = ?",
                (f"{rollout_id}*", group_id, json.dumps(body), row[0]),
            )
        connection.execute("UPDATE rollouts SET rollout_id = rtrim(rollout_id, '*')")


def test_another_attempt_may_not_count_than_the_one_that_did(run: Path) -> None:
    content = receipt_of(run)
    several = "(SELECT rollout_id FROM rollouts GROUP BY rollout_id HAVING count(*) > 1 LIMIT 1)"
    change(
        run,
        "DROP INDEX rollouts_effective",
        f"UPDATE rollouts SET effective = 1 - effective WHERE rollout_id = {several}",
    )
    assert {"root", "attempts"} <= refuted(verified(content, run))
    assert "attempts" in refuted(verified(receipt_of(run, takes_incomplete=True), run))


def test_a_better_figure_in_a_row_is_caught_even_when_signed(run: Path) -> None:
    change(run, "UPDATE rollouts SET reward = 0.5 WHERE outcome = 'scored'")
    found = verified(receipt_of(run), run)
    assert refuted(found) == {"rows"}
    assert claims(found)["rows"].examples[0].endswith("the row says otherwise of reward")


def test_a_receipt_is_of_one_run(played: Path, failing: Path, tmp_path: Path) -> None:
    content = receipt_of(played)
    assert {"run", "root"} <= refuted(verified(content, failing))
    again = play(tmp_path / "again")
    assert {"run", "root"} <= refuted(verified(content, again))
    renamed = copy_of(again)
    with open_run(played) as reader:
        change(renamed, "UPDATE meta SET value = :name WHERE key = 'run_id'", name=reader.info.run_id)
    assert {"root", "settings"} <= refuted(verified(content, renamed))


def test_who_signed_is_said_and_may_be_asked_for(played: Path) -> None:
    content = receipt_of(played, STRANGER)
    found = verified(content, played)
    assert "whose key that is, nothing here says" in claims(found)["signature"].said
    assert refuted(verified(content, played, signer=STRANGER.id)) == set()
    assert refuted(verified(content, played, signer=KEY.id)) == {"signature"}


def test_a_statement_whose_subject_is_another_run_is_no_receipt(played: Path) -> None:
    statement = open_receipt(receipt_of(played)).statement
    subject = statement.subject[0].model_copy(update={"name": "another"})
    other = statement.model_copy(update={"subject": (subject,)})
    content = sign_payload(other.model_dump_json().encode(), KEY).model_dump_json().encode() + b"\n"
    with pytest.raises(SignatureRefused, match="the subject that is signed is another run"):
        open_receipt(content)


def test_the_reference_implementation_verifies_a_receipt(played: Path) -> None:
    wire: dict[str, Any] = json.loads(receipt_of(played))
    # Its dicts have no type.
    theirs = ReferenceEnvelope.from_dict(wire)  # pyright: ignore[reportUnknownMemberType]
    assert list(theirs.verify([reference_key(KEY, KEY.id)], 1)) == [KEY.id]
    statement: Any = json.loads(theirs.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert ReceiptStatement.model_validate(statement).predicate.run.tree.root.endswith(
        statement["subject"][0]["digest"]["sha256"]
    )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rollouts SET body = '{}'",
        "UPDATE rollouts SET body = '[' || body",
        "UPDATE rollouts SET outcome = 'won'",
        "UPDATE turns SET output_token_ids = x'00'",
        "UPDATE turns SET prefix_turn = 900",
        "DELETE FROM meta WHERE key = 'status'",
        "UPDATE meta SET value = 'x' WHERE key = 'bad_rows'",
        "UPDATE rollouts SET body = json_set(body, '$.agent.name', hex(zeroblob(9000)))",
        "UPDATE rollouts SET body = json_set(body, '$.answer', json('\"\\ud800\"'))",
    ],
)
def test_a_run_that_the_hub_did_not_write_is_refuted_and_not_attested(run: Path, statement: str) -> None:
    content = receipt_of(run)
    change(run, statement)
    assert refuted(verified(content, run))
    with pytest.raises((RunDirectoryError, NotAttestable)):
        receipt_of(run)


def test_a_torn_database_is_refuted_and_a_missing_one_is_an_error(run: Path, tmp_path: Path) -> None:
    content, whole = receipt_of(run), (run / "run.db").read_bytes()
    (run / "run.db").write_bytes(whole[:9000])
    assert refuted(verified(content, run)) == {"root"}
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        verified(content, tmp_path / "nowhere")


def test_names_of_strangers_are_shown_as_words(run: Path) -> None:
    def rename(fields: Any) -> None:
        fields["agent"]["name"] = "\x1b[31magent\u202e"

    content = receipt_of(run)
    change_bodies(run, "rollouts", rename)
    said = [line for claim in verified(content, run).claims for line in (claim.said, *claim.examples)]
    assert not any("\x1b" in line or "\u202e" in line for line in said)
    assert any("[31magent" in line or "agent" in line for line in said)


def test_a_run_that_is_being_played_is_refused(run: Path) -> None:
    with open_run(run) as reader:
        assert read_run(reader).facts.status == "finished"
    change(run, "UPDATE meta SET value = 'running' WHERE key = 'status'")
    with pytest.raises(NotAttestable, match="it is dead"):
        receipt_of(run)
