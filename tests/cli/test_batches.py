"""`--batch`: what a run and `hub score` ask by the Batch API, killed and collected, and what a server may do to it."""

import json
import signal
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.batched_hub import (
    NAME,
    PLAY,
    PRICES,
    Hubs,
    assert_asked_once,
    costs,
    plain,
    records,
    say,
)
from tests.models.openai_server import OpenAIServer


@pytest.fixture
async def server() -> OpenAIServer:
    return OpenAIServer(say)


@pytest.fixture
async def hubs(server: OpenAIServer, tmp_path: Path) -> AsyncGenerator[Hubs]:
    async with server.serve() as url:
        yield Hubs(tmp_path, url)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_batched_run_leaves_the_same_records_at_half_the_price(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, api: str
) -> None:
    alone = await hubs(*PLAY, *PRICES, "--api", api, "-o", "alone", "--json")
    assert alone.code == 0, alone.err
    server.asked.clear()
    done = await hubs(*PLAY, *PRICES, "--api", api, "--batch", "-o", "batched", "--json")
    assert done.code == 0, done.err
    assert plain(tmp_path / "batched") == plain(tmp_path / "alone")
    assert costs(tmp_path / "batched") == pytest.approx(costs(tmp_path / "alone") / 2)
    assert costs(tmp_path / "batched") > 0
    assert_asked_once(server, 8)
    (batch,) = done.json["batches"]
    assert (batch["status"], batch["total"], batch["completed"], batch["failed"]) == ("completed", 8, 8, 0)
    ids = {rollout.rollout_id for rollout in records(tmp_path / "batched")}
    assert all(any(name.startswith(rollout_id) for rollout_id in ids) for name, _ in server.batched)


async def test_a_run_killed_while_its_batch_is_at_the_server_collects_it_on_resume(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path
) -> None:
    alone = await hubs(*PLAY, "-o", "alone")
    assert alone.code == 0, alone.err
    server.asked.clear()
    server.is_held = True
    code = await hubs.ended_by(server, signal.SIGKILL, *PLAY, "--batch", "-o", "run")
    assert code == -signal.SIGKILL
    assert records(tmp_path / "run") == []
    server.is_held = False
    done = await hubs("run", "--resume", "-o", "run", "--json")
    assert done.code == 0, done.err
    assert_asked_once(server, 8)
    assert len(server.batches) == 1
    assert plain(tmp_path / "run") == plain(tmp_path / "alone")


async def test_a_batch_whose_id_was_lost_is_found_by_its_mark(server: OpenAIServer, hubs: Hubs, tmp_path: Path) -> None:
    """The connection breaks as the batch is created, and the run is killed before it can ask again."""
    server.is_held = True
    assert await hubs.ended_by(server, signal.SIGKILL, *PLAY, "--batch", "-o", "run") == -signal.SIGKILL
    (journal,) = (tmp_path / "run" / "batches").glob("*/journal.jsonl")
    kept = [line for line in journal.read_text().splitlines() if '"sent"' not in line]
    journal.write_text("\n".join([*kept, '{"batch": "tor']))
    server.is_held = False
    done = await hubs("run", "--resume", "-o", "run", "--json")
    assert done.code == 0, done.err
    assert_asked_once(server, 8)


async def test_a_batch_is_created_once_though_the_answer_to_it_was_lost(server: OpenAIServer, hubs: Hubs) -> None:
    server.loses_creation = True
    done = await hubs(*PLAY, "--batch", "-o", "run")
    assert done.code == 0, done.err
    assert_asked_once(server, 8)
    assert "trying again" in done.err


async def test_no_wait_ends_when_all_is_sent_and_resume_collects(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path
) -> None:
    server.is_held = True
    done = await hubs(*PLAY, "--batch", "--no-wait", "-o", "run", "--json")
    assert done.code == 1, done.err
    assert "collect them with: hub run --resume -o run" in done.err
    assert [batch["status"] for batch in done.json["batches"]] == ["sent"]
    again = await hubs("run", "--resume", "-o", "run", "--json")
    assert (again.code, again.json["scored"]) == (1, 0)
    server.is_held = False
    done = await hubs("run", "--resume", "--wait", "-o", "run", "--json")
    assert (done.code, done.json["scored"]) == (0, 8)
    assert [rollout.attempt for rollout in records(tmp_path / "run")] == [0] * 8
    assert_asked_once(server, 8)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_a_run_is_interrupted_while_it_waits_and_taken_up_again(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, number: signal.Signals
) -> None:
    server.is_held = True
    assert await hubs.ended_by(server, number, *PLAY, "--batch", "-o", "run") == 130
    server.is_held = False
    done = await hubs("run", "--resume", "-o", "run", "--json")
    assert (done.code, done.json["scored"]) == (0, 8)
    assert_asked_once(server, 8)


async def test_lines_that_fail_or_expire_are_asked_again(server: OpenAIServer, hubs: Hubs, tmp_path: Path) -> None:
    """In the same run where another try can help, else on resume; the others' answers are kept."""
    failing: dict[str, tuple[int, dict[str, Any]]] = {}
    seen: list[str] = []

    def refuses(name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if name not in seen:
            seen.append(name)
        return failing.get(name) or (
            (500, {"message": "boom"}) if name == seen[0] else (400, {"message": "no"}) if name == seen[1] else None
        )

    server.refuses_line = refuses
    done = await hubs(*PLAY, "--batch", "-o", "run", "--json")
    assert (done.code, done.json["scored"]) == (1, 7)
    (refused,) = [
        rollout
        for rollout in records(tmp_path / "run")
        if rollout.outcome == "model_failed" and rollout.faults[0].status == 400
    ]
    assert refused.faults[0].retryable is False
    assert len(server.batches) == 2  # the failure of the moment was asked again, the refusal was not
    server.refuses_line = lambda name, body: None
    done = await hubs("run", "--resume", "-o", "run", "--json")
    assert (done.code, done.json["scored"]) == (0, 8)
    assert_asked_once(server, 8 + 1 + 1)


ENDS: dict[str, tuple[dict[str, Any], bool]] = {
    "expired": ({"status": "expired"}, True),
    "cancelled": ({"status": "cancelled"}, False),
    "failed": (
        {"status": "failed", "errors": {"object": "list", "data": [{"code": "bad", "message": "no such model"}]}},
        False,
    ),
}


@pytest.mark.parametrize(("end", "is_asked_again"), ENDS.values(), ids=list(ENDS))
async def test_a_batch_that_ends_early_keeps_what_it_has(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, end: dict[str, Any], is_asked_again: bool
) -> None:
    def drops(name: str, body: dict[str, Any]) -> None:
        if len(server.batches) == 1 and len(server.drops) < 3:
            server.drops.add(name)
        server.end = end if len(server.batches) == 1 else {}

    server.refuses_line = drops
    done = await hubs(*PLAY, "--batch", "-o", "run", "--json")
    left = 8 if is_asked_again else 5
    assert (done.code, done.json["scored"]) == (0 if is_asked_again else 1, left), done.err
    if not is_asked_again:
        faults = [fault for rollout in records(tmp_path / "run") for fault in rollout.faults]
        assert {fault.type for fault in faults} == {"ModelError"}
        assert all(end["status"] in fault.message for fault in faults)
        done = await hubs("run", "--resume", "-o", "run", "--json")
        assert (done.code, done.json["scored"]) == (0, 8), done.err
    assert_asked_once(server, 8 + 3)


Output = Callable[[list[dict[str, Any]]], bytes]


def hostile(lines: list[dict[str, Any]]) -> bytes:
    """An output with what nobody asked for around the answers."""
    foreign = [
        {**lines[0], "custom_id": name} for name in ("another", "../../../etc/passwd", "/etc/passwd", "", "a" * 9999)
    ]
    empty: Any = {"status_code": 200, "body": {"choices": []}}
    twice: list[dict[str, Any]] = [{**line, "response": empty} for line in lines]
    garbage = [b"", b"null", b"[" * 100_000, b"\xff\xfe", b'{"custom_id": 7}', b"{" + b" " * 100_000, b'"text"']
    rows = [*garbage, *map(as_line, [*foreign, *lines, *twice]), b'{"custom_id": "torn', b"x" * (70 * 2**20)]
    return b"\n".join(rows)


def as_line(value: Any) -> bytes:
    return json.dumps(value).encode()


async def test_an_output_full_of_others_and_garbage_gives_each_its_own_answer(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path
) -> None:
    alone = await hubs(*PLAY, "-o", "alone")
    assert alone.code == 0, alone.err
    server.output = hostile
    done = await hubs(*PLAY, "--batch", "-o", "run", "--json")
    assert done.code == 0, done.err
    assert plain(tmp_path / "run") == plain(tmp_path / "alone")


async def test_ids_that_are_paths_are_refused(server: OpenAIServer, hubs: Hubs, tmp_path: Path) -> None:
    server.end = {"output_file_id": "../../../secret"}
    done = await hubs(*PLAY, "--batch", "-o", "run", "--retries", "0", "--json")
    assert (done.code, done.json["scored"]) == (1, 0)
    assert all("an id that is none" in rollout.faults[0].message for rollout in records(tmp_path / "run"))
    server.end = {}
    for batch in server.batches.values():
        batch["output_file_id"] = f"file-{batch['id']}-output"
    done = await hubs("run", "--resume", "-o", "run", "--json")
    assert (done.code, done.json["scored"]) == (0, 8), done.err
    assert_asked_once(server, 8)


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "several turns": (("-a", "tool_loop", "-m", NAME), "single_turn"),
    "another provider": (
        ("-a", "single_turn", "-m", "hosted_vllm/x", "--base-url", "http://127.0.0.1:1"),
        "no Batch API",
    ),
    "a mock": (("-a", "single_turn", "-m", "mock/solver"), "no Batch API"),
    "another lane": (("-a", "single_turn", "-m", NAME, "--lane", "litellm"), "no Batch API"),
    "a budget": (("-a", "single_turn", "-m", NAME, "--budget", "1", *PRICES), "a budget"),
    "no model": ((), "no model"),
    "a process of its own": (("-a", "single_turn", "-m", NAME, "--served"), "process of its own"),
    "a cluster": (("-a", "single_turn", "-m", NAME, "--pool", "ray"), "--pool ray"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=list(REFUSED))
async def test_what_cannot_be_batched_is_refused_with_what_to_do(
    hubs: Hubs, server: OpenAIServer, arguments: tuple[str, ...], words: str
) -> None:
    done = await hubs("run", "arithmetic", *arguments, "--batch")
    assert words in done.refused()
    assert server.headers == []


async def test_no_wait_without_a_batch_is_refused(hubs: Hubs) -> None:
    done = await hubs("run", "arithmetic", "--no-wait")
    assert "--batch" in done.refused()
