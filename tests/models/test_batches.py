"""Batched models in one process: how calls are put together, found again, and what a server may answer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import ModelError
from rollouthub.errors import ConfigError, ContextLimitError, StoreError
from rollouthub.generation import Model, ModelReply
from rollouthub.limits import charged
from rollouthub.messages import user
from rollouthub.models.batch_run import CALLER, BatchRun, Caller
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.openai import batch_queue
from rollouthub.models.openai.batch_journal import BatchJournal, read_batches
from rollouthub.models.resolve import open_model
from tests.models.openai_server import MODEL, OpenAIServer
from tests.models.servers import ask

KEYS = Credentials({"OPENAI_API_KEY": "hush-hush-hush"})
CONFIG = ModelConfig(name=f"openai/{MODEL}", batch=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_queue, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(batch_queue, "FIRST_POLL_SECONDS", 0.02)
    monkeypatch.setattr(batch_queue, "SHORT_PATIENCE_SECONDS", 0.1)


class Batches:
    """The batches of a run in a folder, which ends and goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder, list[str]()
        self.is_waiting = True

    @asynccontextmanager
    async def open(self, url: str, **config: Any) -> AsyncGenerator[Model]:
        """A model whose batches are kept there; leaving it is the end of its process."""
        with anyio.CancelScope() as scope:
            run = BatchRun(self.folder, self.notes.append, scope.cancel, "hub run --resume", self.is_waiting)
            update = {"base_url": url, **config}
            async with open_model(CONFIG.model_copy(update=update), KEYS, run) as model:
                yield model


async def answers(model: Model, *texts: str, attempt: int = 0) -> list[ModelReply | ModelError]:
    """The replies to calls that are made at once, each by a caller of its own."""
    found: list[Any] = [None] * len(texts)

    async def call(place: int, text: str) -> None:
        CALLER.set(Caller(f"rollout-{place}", attempt, is_episode=True))
        try:
            found[place] = await model.generate(ask(user(text), timeout_seconds=0.001))
        except ModelError as error:
            found[place] = error

    async with anyio.create_task_group() as calls:
        for place, text in enumerate(texts):
            calls.start_soon(call, place, text)
    return found


def echo(body: dict[str, Any]) -> str:
    return (body.get("messages") or body["input"])[-1]["content"]


def texts(replies: list[ModelReply | ModelError]) -> list[str]:
    return [reply.message.text if isinstance(reply, ModelReply) else type(reply).__name__ for reply in replies]


async def test_calls_made_at_once_share_a_batch_and_each_gets_its_answer(tmp_path: Path) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url, batches.open(url) as model:
        assert texts(await answers(model, *map(str, range(20)))) == [str(number) for number in range(20)]
    assert len(server.batches) == 1
    (batch,) = read_batches(tmp_path)
    assert (batch.ended_as, batch.counts["completed"]) == ("completed", 20)


async def test_equal_questions_of_several_callers_are_asked_for_each(tmp_path: Path) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url, batches.open(url) as model:
        assert texts(await answers(model, "same", "same")) == ["same", "same"]
    assert len({name for name, _ in server.batched}) == 2


@pytest.mark.parametrize(("name", "most"), [("MOST_REQUESTS", 3), ("MOST_BYTES", 600)])
async def test_more_than_a_batch_takes_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(batch_queue, name, most)
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url, batches.open(url) as model:
        assert texts(await answers(model, *map(str, range(8)))) == [str(number) for number in range(8)]
    assert len(server.batches) == 3
    assert all(len(data) <= 600 for file, data in server.files.items() if "-batch" not in file)
    assert len(server.batched) == 8


async def test_a_request_larger_than_a_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_queue, "MOST_BYTES", 600)
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url, batches.open(url) as model:
        (error,) = await answers(model, "x" * 600)
    assert isinstance(error, ModelError)
    assert not error.retryable
    assert server.batched == []


async def test_another_attempt_is_asked_anew_and_the_same_one_is_not(tmp_path: Path) -> None:
    """An answer belongs to the attempt that got it: after a kill the same attempt gets it again, the next never."""
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url:
        for attempt in (0, 0, 1, 1):
            async with batches.open(url) as model:
                assert texts(await answers(model, "hi", attempt=attempt)) == ["hi"]
    assert [name[-1] for name, _ in server.batched] == ["0", "1"]


async def test_a_cancelled_call_is_found_by_the_next_attempt(tmp_path: Path) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    server.is_held = True
    async with server.serve() as url, batches.open(url) as model:
        polled = server.polled
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answers, model, "hi")
            await polled.wait()
            tasks.cancel_scope.cancel()
        server.is_held = False
        assert texts(await answers(model, "hi", attempt=1)) == ["hi"]
    assert len(server.batched) == 1


async def test_no_deadline_runs_while_a_batch_is_waited_for(tmp_path: Path) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    async with server.serve() as url, batches.open(url) as model:
        with anyio.move_on_after(0.01) as scope, charged(scope):
            CALLER.set(Caller("rollout"))
            reply = await model.generate(ask(user("hi"), timeout_seconds=0.001))
            assert reply.message.text == "hi"
        assert not scope.cancelled_caught


@pytest.mark.parametrize("does_wait", [True, False])
async def test_a_server_without_room_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does_wait: bool
) -> None:
    monkeypatch.setattr(batch_queue, "FULL_SECONDS", 0.01)
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    server.end = {"status": "failed", "errors": {"object": "list", "data": [full]}, "output_file_id": None}
    batches.is_waiting = does_wait

    async def make_room() -> None:
        await server.polled.wait()
        server.end = {}

    async with server.serve() as url, anyio.create_task_group() as tasks:
        tasks.start_soon(make_room)
        async with batches.open(url) as model:
            if does_wait:
                assert texts(await answers(model, "a", "b")) == ["a", "b"]
            else:
                await answers(model, "a", "b")
                raise AssertionError("it is put off")
        batches.is_waiting = True
        async with batches.open(url) as model:
            assert texts(await answers(model, "a", "b")) == ["a", "b"]
    assert [name for name, _ in server.batched] == [name for name, _ in server.batched[:2]] * 2
    assert any("room" in note for note in batches.notes)


async def test_a_server_that_is_gone_loses_nothing(tmp_path: Path) -> None:
    """Calls fail, also in further attempts, and are neither lost nor asked twice when it is there again."""
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    batches.is_waiting = False
    async with server.serve() as url, batches.open(url) as model:
        server.is_down = True
        for attempt in range(2):
            (error,) = await answers(model, "a", attempt=attempt)
            assert isinstance(error, ModelError)
            assert "503" in str(error)
        server.is_down = False
        assert texts(await answers(model, "a", attempt=2)) == ["a"]
    assert len(server.batched) == 1


ANSWERS: dict[str, tuple[Any, type[ModelError], bool]] = {
    "a refusal": ((400, {"message": "no"}), ModelError, False),
    "too much": ((429, {"message": "slow"}), ModelError, True),
    "the server's": ((500, {"message": "boom"}), ModelError, True),
    "a context limit": ((400, {"message": "too long", "code": "context_length_exceeded"}), ContextLimitError, False),
    "a key": ((401, {"message": "Incorrect API key: hush-hush-hush"}), ModelError, False),
}


@pytest.mark.parametrize(("refused", "kind", "retryable"), ANSWERS.values(), ids=list(ANSWERS))
async def test_a_line_that_failed_is_the_fault_a_call_has(
    tmp_path: Path, refused: tuple[int, dict[str, Any]], kind: type[ModelError], retryable: bool
) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)
    server.refuses_line = lambda name, body: refused
    async with server.serve() as url, batches.open(url) as model:
        (error,) = await answers(model, "hi")
    assert isinstance(error, ModelError)
    assert (type(error), error.status, error.retryable) == (kind, refused[0], retryable)
    assert "hush" not in str(error)


BODIES: dict[str, Any] = {
    "no answer": {},
    "a text": "hi",
    "null": None,
    "garbage in it": {"choices": [{"message": {"content": 7}}]},
    "an abort": {"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
async def test_an_answer_that_is_none_is_a_fault_and_no_words(tmp_path: Path, body: Any) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path)

    def output(lines: list[dict[str, Any]]) -> bytes:
        line = {**lines[0], "response": {"status_code": 200, "body": body}}
        return repr(line).replace("'", '"').replace("None", "null").encode() + b"\n"

    server.output = output
    async with server.serve() as url, batches.open(url) as model:
        (error,) = await answers(model, "hi")
    assert isinstance(error, ModelError)
    assert error.retryable


async def test_a_schema_that_is_refused_is_left_out_in_the_next_batch(tmp_path: Path) -> None:
    def refuses(name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        return (400, {"message": "response_format is not supported"}) if "response_format" in body else None

    server, batches = OpenAIServer(echo), Batches(tmp_path)
    server.refuses_line = refuses
    async with server.serve() as url, batches.open(url) as model:
        reply = await model.generate(ask(user("hi"), answer_schema={"type": "object"}))
    assert reply.message.text == "hi"
    assert len(server.batches) == 2


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "another provider": ({"name": "anthropic/claude"}, "no Batch API"),
    "vLLM": ({"name": "hosted_vllm/x"}, "no Batch API"),
    "another lane": ({"lane": "direct"}, "no Batch API"),
    "two servers": ({"replicas": ("http://127.0.0.1:2/v1",)}, "several servers"),
    "a rate": ({"requests_per_minute": 5}, "requests_per_minute"),
    "a budget": ({"budget": 1.0}, "a budget"),
    "fallbacks": ({"fallbacks": ("mock/say",)}, "fallbacks"),
}


@pytest.mark.parametrize(("given", "words"), UNFIT.values(), ids=list(UNFIT))
async def test_what_cannot_be_batched_is_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    config = ModelConfig.model_validate({**CONFIG.model_dump(), "base_url": "http://127.0.0.1:1/v1", **given})
    run = BatchRun(tmp_path, print, lambda: None, "")
    with pytest.raises(ConfigError, match=words):
        async with open_model(config, KEYS, run):
            pass


async def test_a_batched_model_is_opened_by_those_who_can_wait_for_it() -> None:
    with pytest.raises(ConfigError, match="leave batch out"):
        async with open_model(CONFIG.model_copy(update={"base_url": "http://127.0.0.1:1/v1"}), KEYS):
            pass


DAMAGED: dict[str, bytes] = {
    "a mark that is a path": b'{"batch": "../../../../tmp/x", "path": "/responses", "custom_ids": ["a"], "created": 1}',
    "another API": b'{"batch": "0123456789abcdef", "path": "/v1/files", "custom_ids": ["a"], "created": 1}',
    "numbers for ids": b'{"batch": "0123456789abcdef", "path": "/responses", "custom_ids": [7], "created": 1}',
    "a list": b"[]",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=list(DAMAGED))
def test_a_journal_that_others_wrote_is_refused_by_its_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "journal.jsonl").write_bytes(b'{"torn": \n' + line + b"\n")
    with pytest.raises(StoreError, match=r"journal\.jsonl:2 is damaged"):
        read_batches(tmp_path)


def test_a_journal_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError):
        BatchJournal(tmp_path).open()
