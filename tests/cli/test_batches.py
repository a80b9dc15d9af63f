"""`--batch`: what a run and `hub score` ask by the Batch API, killed and collected, and what a server may do to it."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rollouthub import Rollout
from rollouthub.store import open_run
from tests.models.openai_server import MODEL, OpenAIServer

from .conftest import Done, Hub, started

NAME = f"openai/{MODEL}"
PLAY = ("run", "arithmetic", "-a", "single_turn", "-m", NAME, "--lane", "openai", "--limit", "4", "--repeats", "2")
PRICES = ("--price-prompt", "2", "--price-output", "4")
POEMS = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task
from rollouthub.authoring.rewards import Criterion, Judge

CRITERIA = [Criterion(name="polite", question="?"), Criterion(name="brief", question="?", lowest=1, highest=5)]


class Poems(Environment[EnvironmentConfig]):
    """Write a line."""

    scores_transcripts = True

    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        for number in range(6):
            yield Task(Public(id=f"poem-{number}", prompt=f"A line on {number}."), Secret())

    async def verify(self, submission: Submission) -> Score:
        return await Judge(self.models["judge"], CRITERIA)(self.task, submission)
'''


def asked_words(body: dict[str, Any]) -> str:
    """The last message of a request, of either API."""
    content = (body.get("messages") or body["input"])[-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def say(body: dict[str, Any]) -> str:
    """A player that always knows the same number, and a judge that likes every second letter."""
    words = asked_words(body)
    if "Now judge." in words:
        return json.dumps({"reasoning": "so", "polite": sum(words.encode()) % 2 == 0, "brief": 4})
    return f"The answer is {sum(words.encode()) % 100}."


class Hubs:
    """The hub of these tests: beside a server in this process."""

    def __init__(self, hub: Hub, folder: Path, url: str) -> None:
        self._hub, self._folder = hub, folder
        self.keys = {"OPENAI_API_KEY": "hush-hush-hush", "OPENAI_BASE_URL": url}

    async def __call__(self, *arguments: str | Path) -> Done:
        """Run it to its end."""
        return await anyio.to_thread.run_sync(partial(self._hub, *arguments, **self.keys))

    async def ended_by(self, server: OpenAIServer, number: signal.Signals, *arguments: str | Path) -> int:
        """Start it, wait until a batch is at the server and was asked about, and send it a signal; its exit code."""

        def wait(run: subprocess.Popen[str]) -> int:
            run.communicate(timeout=60)
            return run.returncode

        with started(self._folder, *arguments, **self.keys) as run:
            with anyio.fail_after(60):
                await server.polled.wait()
            run.send_signal(number)
            return await anyio.to_thread.run_sync(wait, run)


@pytest.fixture
async def server() -> OpenAIServer:
    return OpenAIServer(say)


@pytest.fixture
async def hubs(server: OpenAIServer, hub: Hub, tmp_path: Path) -> AsyncGenerator[Hubs]:
    async with server.serve() as url:
        yield Hubs(hub, tmp_path, url)


def records(directory: Path) -> list[Rollout]:
    with open_run(directory) as reader:
        return sorted(reader.rollouts(effective=False), key=lambda rollout: (rollout.rollout_id, rollout.attempt))


def plain(directory: Path) -> list[dict[str, Any]]:
    """A run's records without times, prices and its own id."""
    return [without(rollout.model_dump(mode="json")) for rollout in records(directory)]


def without(value: Any) -> Any:
    times = ("timings", "started", "started_at", "seconds", "cost", "run_id", "model_seconds")
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if key not in times}  # pyright: ignore[reportUnknownVariableType]
    return [without(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def costs(directory: Path) -> float:
    return sum(turn.cost or 0.0 for rollout in records(directory) for turn in rollout.turns)


def assert_asked_once(server: OpenAIServer, number: int) -> None:
    assert max(Counter(name for name, _ in server.batched).values()) == 1
    assert len(server.batched) == number
    assert server.asked == []


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
