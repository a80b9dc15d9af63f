"""Judges asked by the Batch API: `hub score --batch`, of files and of runs."""

import json
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.batched_hub import (
    NAME,
    POEMS,
    Hubs,
    assert_asked_once,
    plain,
    say,
    without,
)
from tests.models.openai_server import OpenAIServer


@pytest.fixture
async def server() -> OpenAIServer:
    return OpenAIServer(say)


@pytest.fixture
async def hubs(server: OpenAIServer, tmp_path: Path) -> AsyncGenerator[Hubs]:
    async with server.serve() as url:
        yield Hubs(tmp_path, url)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Completions of poems, two of which say the same."""
    (tmp_path / "poems.py").write_text(POEMS)
    said = [{"task_id": f"poem-{number % 6}", "completion": f"Line {number % 9}."} for number in range(10)]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    return tmp_path / "said.jsonl"


SCORE = ("score", "said.jsonl", "--env", "poems.py", "--role", f"judge={NAME}")


def scored(file: Path) -> list[Any]:
    return [without(json.loads(line)) for line in file.read_text().splitlines()]


async def test_completions_are_judged_in_a_batch_that_outlives_a_kill(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, lines: Path
) -> None:
    alone = await hubs(*SCORE, "-o", "alone.jsonl")
    assert alone.code == 0, alone.err
    server.asked.clear()
    server.is_held = True
    code = await hubs.ended_by(server, signal.SIGKILL, *SCORE, "--batch", "-o", "out.jsonl")
    assert code == -signal.SIGKILL
    assert "--resume" in (await hubs(*SCORE, "--batch", "-o", "other.jsonl", "--resume", "--no-wait")).err
    stale = await hubs(*SCORE, "--batch", "-o", "out.jsonl")
    assert "--resume" in stale.refused()
    server.is_held = False
    done = await hubs(*SCORE, "--batch", "-o", "out.jsonl", "--resume", "--json")
    assert done.code == 0, done.err
    assert [batch["status"] for batch in done.json["batches"]] == ["completed"]
    assert scored(tmp_path / "out.jsonl") == scored(tmp_path / "alone.jsonl")
    assert [name for name, _ in server.batched[:10]] == [name for name, _ in server.batched[10:]]
    assert max(Counter(name for name, _ in server.batched[:10]).values()) == 1
    (schema,) = {json.dumps(body["response_format"]) for _, body in server.batched}
    assert '"strict": true' in schema


async def test_a_runs_judge_is_asked_in_a_batch(server: OpenAIServer, hubs: Hubs, tmp_path: Path, lines: Path) -> None:
    """In another run of the same rollouts; a verdict that failed is asked for again on resume."""
    judge = ("--role", f"judge={NAME}")
    played = await hubs("run", "poems.py", "-a", "single_turn", "-m", NAME, *judge, "-o", "run")
    assert played.code == 0, played.err
    server.asked.clear()
    broken: list[str] = []

    def refuses(name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        broken.append(name)
        return (400, {"message": "no"}) if name == broken[0] else None

    server.refuses_line = refuses
    done = await hubs("score", "run", *judge, "--env", "poems.py", "--batch", "--json")
    assert (done.code, done.json["newly_unscored"]) == (1, 1), done.err
    server.refuses_line = lambda name, body: None
    done = await hubs("score", "run", *judge, "--env", "poems.py", "--batch", "--resume", "--json")
    assert (done.code, done.json["changed"]) == (0, 0), done.err
    assert_asked_once(server, 6 + 1)


async def test_player_and_judge_share_their_batches(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, lines: Path
) -> None:
    judge = ("--role", f"judge={NAME}")
    play = ("run", "poems.py", "-a", "single_turn", "-m", NAME, "--lane", "openai", *judge)
    alone = await hubs(*play, "-o", "alone")
    assert alone.code == 0, alone.err
    server.asked.clear()
    done = await hubs(*play, "--batch", "-o", "run", "--json")
    assert (done.code, len(done.json["batches"])) == (0, 2), done.err
    assert plain(tmp_path / "run") == plain(tmp_path / "alone")
    assert_asked_once(server, 12)


async def test_scoring_that_does_not_wait_is_collected_later(
    server: OpenAIServer, hubs: Hubs, tmp_path: Path, lines: Path
) -> None:
    server.is_held = True
    done = await hubs(*SCORE, "--batch", "--no-wait", "-o", "out.jsonl", "--json")
    assert (done.code, done.json["lines"], done.json["batches"][0]["status"]) == (1, 0, "sent"), done.err
    assert await hubs.ended_by(server, signal.SIGINT, *SCORE, "--batch", "-o", "out.jsonl", "--resume") == 130
    server.is_held = False
    done = await hubs(*SCORE, "--batch", "-o", "out.jsonl", "--resume", "--json")
    assert (done.code, done.json["scored"]) == (0, 10), done.err
    assert_asked_once(server, 10)


async def test_batches_of_a_stream_are_refused(hubs: Hubs, lines: Path) -> None:
    assert "name files" in (await hubs(*SCORE, "--batch", "-o", "-")).refused()
