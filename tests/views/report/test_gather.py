"""The facts of a report: complete enough for a stranger, honest about what is missing, and without secrets."""

import hashlib
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Message, Outcome, Turn
from rollouthub.errors import HubError, RunDirectoryError
from rollouthub.messages import Media
from rollouthub.rollout import Intervention
from rollouthub.store import open_writer
from rollouthub.store.notes import NoteChange, add
from rollouthub.views.cards.blocks import MediaBlock
from rollouthub.views.cards.card import NoteCard, SpeechCard, TurnCards
from rollouthub.views.report.noted_rollouts import MOST_COMMENTS, MOST_NOTED
from rollouthub.views.report.report_figures import MOST_GROUPS
from tests.store.records import conversation
from tests.views.report.played import RESOLVED, broken, hostile, make_run, played, report_of

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", 4, 4) + b"\x08\x02\x00\x00\x00"


async def test_a_stranger_learns_what_made_the_numbers(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(n, s, reward=float(s)) for n in range(3) for s in range(2)])
    (run,) = report_of(tmp_path / "run").runs
    identity = run.identity
    (environment,) = identity.environments
    assert (environment.name, environment.version, environment.split) == ("arithmetic", "1.2.0", "test")
    assert (environment.code, environment.bundle, environment.dependencies) == (
        "sha256:c0de",
        "sha256:b0b",
        "sha256:de95",
    )
    assert (environment.tools, environment.verifier) == ("sha256:7001", "exact 1 sha256:fe")
    (agent,) = identity.agents
    assert (agent.name, agent.version, agent.config) == ("tool_loop", "3", {"tries": 2})
    assert (identity.models, identity.seed, identity.repeats, identity.tasks) == (("openai/small",), 7, 2, 3)
    assert identity.limits == {"arithmetic": {"max_turns": 50}}


async def test_the_same_tasks_have_the_same_digest_in_any_order(tmp_path: Path) -> None:
    await make_run(tmp_path / "a", [played(n, s) for n in range(4) for s in range(2)])
    await make_run(tmp_path / "b", [played(n, 0) for n in (3, 1, 0, 2)])
    await make_run(tmp_path / "c", [played(n, 0) for n in (3, 1, 0)])
    a, b, c = (run.identity.tasks_digest for run in report_of(*(tmp_path / name for name in "abc")).runs)
    assert a == b != c


async def test_four_kinds_of_ending_are_never_mixed_and_only_agent_failures_count_strictly(tmp_path: Path) -> None:
    records = [played(0, 0), played(1, 0), broken(2, Outcome.AGENT_FAILED), broken(3, Outcome.MODEL_FAILED)]
    await make_run(tmp_path / "run", [*records, broken(4, Outcome.VERIFIER_FAILED)])
    figures = report_of(tmp_path / "run").runs[0].figures
    assert figures.kinds == {"scored": 2, "agent_failure": 1, "infrastructure_fault": 1, "verifier_fault": 1}
    assert figures.mean_reward.value == 1.0
    assert figures.mean_reward_strict.value == pytest.approx(2 / 3)
    assert (figures.scored, figures.played) == (2, 5)


async def test_nothing_scored_has_no_mean(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [broken(1, Outcome.SANDBOX_FAILED)])
    (run,) = report_of(tmp_path / "run").runs
    assert (run.figures.mean_reward.value, run.rewards, run.at_k) == (None, (), ())
    assert any("unscored is not zero" in notice for notice in run.notices)


async def test_secrets_and_paths_of_the_machine_stay_behind(tmp_path: Path) -> None:
    message = "no file /opt/somewhere/deep/model.bin at http://u:pw-of-somebody@host/v1 with letmein-please"
    await make_run(tmp_path / "run", [played(0, 0, answer="letmein-please"), broken(1, Outcome.AGENT_FAILED, message)])
    text = report_of(tmp_path / "run").model_dump_json()
    for secret in ("letmein-please", "pw-of-somebody", "/home/somebody", "/opt/somewhere", str(tmp_path)):
        assert secret not in text
    assert "…/rows.jsonl" in text
    assert "…/model.bin" in text


async def test_the_machine_that_played_is_not_named(tmp_path: Path) -> None:
    import platform

    await make_run(tmp_path / "run", [played(0, 0)])
    assert "host" not in report_of(tmp_path / "run").runs[0].model_dump()
    assert f'"{platform.node()}"' not in report_of(tmp_path / "run").model_dump_json()


async def test_tasks_and_transcripts_are_bounded(tmp_path: Path) -> None:
    records = [played(n, 0, reward=n / 100) for n in range(MOST_GROUPS + 40)]
    turns = conversation(5000)[:1] + tuple(
        Turn(index=i, parent_turn=i - 1, messages=(), response=Message(role="assistant", content="so " * 20_000))
        for i in range(1, 40)
    )
    await make_run(tmp_path / "run", [*records, played(500, 0, reward=-1.0, turns=turns)])
    report = report_of(tmp_path / "run")
    (run,) = report.runs
    assert len(run.groups) + run.groups_left_out == MOST_GROUPS + 41
    assert len(run.groups) <= MOST_GROUPS
    assert run.groups[0].task == "test/500"
    worst = next(each for each in run.transcripts if each.chosen == "worst")
    assert worst.turns == 40
    assert [card.text for card in worst.cards if isinstance(card, NoteCard)] == ["24 turns are not in this report"]
    assert len(report.model_dump_json()) < 400_000


async def test_pictures_are_shown_only_where_they_are_what_they_say(tmp_path: Path) -> None:
    media = {f"sha256:{hashlib.sha256(content).hexdigest()}": content for content in (PNG, b"<svg onload=alert(1)>")}
    true, false = media
    content = (Media(digest=true, mime_type="image/png"), Media(digest=false, mime_type="image/png"))
    said = Message(role="user", content=(*content, Media(digest=true, mime_type="image/svg+xml")))
    turn = Turn(index=0, messages=(said,), response=Message(role="assistant", content="I see"))
    await make_run(tmp_path / "run", [played(0, 0, turns=(turn,))], media)
    (turn,) = report_of(tmp_path / "run").runs[0].transcripts[0].cards
    assert isinstance(turn, TurnCards)
    asked = turn.cards[0]
    assert isinstance(asked, SpeechCard)
    shown = [block for block in asked.blocks if isinstance(block, MediaBlock)]
    assert [(block.source or "").partition(";")[0] for block in shown] == ["data:image/png", "", ""]
    assert [block.why for block in shown] == [
        "",
        "said to be image/png, but is not",
        "image/svg+xml: not a picture that is shown here",
    ]


async def test_a_run_that_is_on_says_so_and_counts_what_is_there(tmp_path: Path) -> None:
    durable = anyio.Event()
    options: dict[str, Any] = {"resolved": RESOLVED, "given": "", "resume": False}
    async with open_writer(tmp_path / "run", **options, on_commit=lambda _: durable.set()) as writer:
        writer.set_plan(4)
        await writer.add(played(0, 0))
        with anyio.fail_after(5):
            await durable.wait()
        (run,) = report_of(tmp_path / "run").runs
        assert run.status == "running"
        assert "1 of 4 rollouts are there so far" in run.notices[0]
        assert run.figures.coverage == 0.25


async def test_an_empty_run_says_that_there_is_nothing(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [])
    (run,) = report_of(tmp_path / "run").runs
    assert any("No rollout has ended yet" in notice for notice in run.notices)
    assert (run.figures.coverage, run.transcripts, run.groups) == (None, (), ())


async def test_a_run_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        report_of(folder)
    folder.mkdir()
    (folder / "run.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(RunDirectoryError, match="damaged or no database"):
        report_of(folder)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE meta SET value = 'odd' WHERE key = 'status'",
        "UPDATE rollouts SET outcome = 'odd'",
        "UPDATE rollouts SET body = '{}'",
        "UPDATE rollouts SET body = 'no JSON'",
        "DELETE FROM meta WHERE key = 'run_id'",
        "UPDATE meta SET value = '[]' WHERE key = 'resolved'",
        "DROP TABLE turns",
    ],
)
async def test_a_run_with_rows_that_nobody_wrote_is_refused_in_words(tmp_path: Path, damage: str) -> None:
    await make_run(tmp_path / "run", [played(0, 0)])
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection:
        connection.execute(damage)
        connection.commit()
    words = r"run in .* cannot be reported|could not read the run in|what this version of rollouthub does not write"
    with pytest.raises(HubError, match=words):
        report_of(tmp_path / "run")


async def test_only_what_hub_run_played_is_said_to_be_played_again_by_it(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(0, 0)])
    async with open_writer(tmp_path / "new", resolved={**RESOLVED, "rescored": {}}, given="", resume=False) as writer:
        await writer.add(played(0, 0))
    run, rescored = report_of(tmp_path / "run", tmp_path / "new").runs
    assert run.commands == ("hub run --config run/resolved.json -o runs/again",)
    assert rescored.commands == ()
    assert any("new rewards" in notice for notice in rescored.notices)


async def test_scores_that_a_person_helped_with_are_told(tmp_path: Path) -> None:
    helped = played(0, 0, told=(Intervention(at=0.5, seat="agent", text="try 7"),))
    await make_run(tmp_path / "run", [helped, played(1, 0)])
    (run,) = report_of(tmp_path / "run").runs
    assert "In 1 of these rollouts a person spoke to the agent while it played." in run.notices


async def test_hostile_text_is_plain_in_every_fact(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [hostile(0, "sha256:" + "0" * 64), played(1, 0)])
    report = report_of(tmp_path / "run")
    for text in strings(report.model_dump()):
        assert all(letter in "\n\t" or letter.isprintable() for letter in text), text[:200]
        assert len(text) < 3200


def strings(value: Any) -> list[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in strings(each)]  # pyright: ignore
    if isinstance(value, list | tuple):
        return [text for each in value for text in strings(each)]  # pyright: ignore
    return []


async def test_notes_are_bounded_redacted_and_of_rollouts_that_there_are(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(n, 0) for n in range(MOST_NOTED + 3)])
    names = [f"g{n}-0" for n in range(MOST_NOTED + 3)]
    add(tmp_path / "run", *(NoteChange(name, tags=("seen",)) for name in (*names, "gone-0")), by="anna")
    add(
        tmp_path / "run", *(NoteChange(names[-1], comment="letmein-please " + "x" * 3000) for _ in range(30)), by="anna"
    )
    (run,) = report_of(tmp_path / "run", transcripts=0).runs
    assert (len(run.noted), run.noted_left_out) == (MOST_NOTED, 3)
    first = run.noted[0]
    assert first.rollout_id == names[-1]
    comments = first.parts[0].notes.comments
    assert (len(comments), first.comments_left_out) == (MOST_COMMENTS, 30 - MOST_COMMENTS)
    assert all(len(each.text) < 1100 and each.text.startswith("[redacted] x") for each in comments)
