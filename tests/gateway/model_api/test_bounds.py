"""How much one request may hold; what holds more is refused in words, and large ones do not hold up the hub."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rollouthub.gateway.model_api import model_api
from rollouthub.gateway.model_api.anthropic_messages import count_tokens
from rollouthub.gateway.model_api.dialects import PATHS, dialect_of
from rollouthub.gateway.model_api.request_bounds import MOST_MESSAGES, MOST_PARTS, MOST_TOKENS, MOST_TOOLS, MOST_VALUES
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import harness

GO: Any = {"role": "user", "content": "go"}


def read_chat(body: bytes) -> object:
    return read_by("chat/completions")(body)


def read_by(path: str) -> Callable[[bytes], object]:
    dialect = dialect_of(path)
    assert dialect is not None
    return dialect.read


READERS = [*(pytest.param(read_by(path), id=path) for path in PATHS), pytest.param(count_tokens, id="count_tokens")]


def body(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"messages": messages, "input": messages, **fields}).encode()


@pytest.mark.parametrize("read", READERS)
def test_more_messages_than_are_read_are_refused(read: Callable[[bytes], object]) -> None:
    with pytest.raises(ValueError, match=f"has {MOST_MESSAGES + 1} entries; at most {MOST_MESSAGES}"):
        read(body(*[GO] * (MOST_MESSAGES + 1)))


@pytest.mark.parametrize("read", READERS)
def test_more_tools_than_are_read_are_refused(read: Callable[[bytes], object]) -> None:
    tool = {"type": "function", "name": "a", "function": {"name": "a"}}
    with pytest.raises(ValueError, match=f"tools has {MOST_TOOLS + 1} entries; at most {MOST_TOOLS}"):
        read(body(GO, tools=[tool] * (MOST_TOOLS + 1)))


@pytest.mark.parametrize("read", READERS)
def test_more_parts_than_are_read_are_refused_over_all_messages(read: Callable[[bytes], object]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}] * (MOST_PARTS // 2 + 1)}
    with pytest.raises(ValueError, match=f"more than {MOST_PARTS} content parts"):
        read(body(message, message))


@pytest.mark.parametrize("read", READERS)
def test_what_lists_more_than_a_model_reads_is_not_even_decoded(read: Callable[[bytes], object]) -> None:
    with pytest.raises(ValueError, match="values"):
        read(b'{"messages":[' + b"0," * (MOST_VALUES + 1) + b"0]}")


def test_parts_of_tool_results_and_tool_calls_count_and_namespaces_have_tools() -> None:
    inner: list[Any] = [{"type": "text", "text": "a"}] * MOST_PARTS
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": inner}]}
    with pytest.raises(ValueError, match="content parts"):
        read_by("messages")(body(result))
    output = {"type": "function_call_output", "call_id": "c", "output": [*inner, inner[0]]}
    with pytest.raises(ValueError, match="content parts"):
        read_by("responses")(body(output))
    call = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    with pytest.raises(ValueError, match="content parts"):
        read_chat(body(GO, {"role": "assistant", "tool_calls": [call] * (MOST_PARTS + 1)}))
    space = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "a"}] * MOST_TOOLS}
    with pytest.raises(ValueError, match="tools has"):
        read_by("responses")(body(GO, tools=[space]))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("limit", [2**31, 10**30])
def test_a_length_that_no_server_can_count_is_refused(path: str, limit: int) -> None:
    field = "max_output_tokens" if path == "responses" else "max_tokens"
    with pytest.raises(ValueError, match=f"{field} is at most {MOST_TOKENS}"):
        read_by(path)(body(GO, **{field: limit}))
    if path == "chat/completions":
        with pytest.raises(ValueError, match=str(MOST_TOKENS)):
            read_chat(body(GO, max_completion_tokens=limit))


async def test_a_large_request_leaves_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read_in: list[str] = []
    run_sync = anyio.to_thread.run_sync

    async def noted(work: Any, *given: Any, **options: Any) -> Any:
        read_in.append(type(given[0]).__name__ if given else "")
        return await run_sync(work, *given, **options)

    statuses: list[int] = []
    async with harness(["hello", "hello"]) as made:

        async def play(address: SeatAddress) -> None:
            with monkeypatch.context() as patch:
                patch.setattr(anyio.to_thread, "run_sync", noted)
                for size in (1, model_api.MOST_BYTES_READ_AT_ONCE):
                    status, _ = await made.chat(address, "x" * size)
                    statuses.append(status)
                    statuses.append(read_in.count("bytes"))

        await made.play(play)
    assert statuses == [200, 0, 200, 1]


async def test_too_many_tools_are_the_agents_fault() -> None:
    answers: list[Any] = []
    tool = {"type": "function", "function": {"name": "a"}}
    async with harness(["hello"]) as made:

        async def play(address: SeatAddress) -> None:
            answers.append(await made.chat(address, tools=[tool] * (MOST_TOOLS + 1)))
            answers.append(await made.chat(address, max_tokens=10**30))
            clip = {"type": "image_url", "image_url": {"url": "data:video/mp4;base64,cG5n"}}
            answers.append(await made.chat(address, [{"role": "user", "content": [clip]}]))

        await made.play(play)
    assert [status for status, _ in answers] == [400, 400, 400]
    assert "no image" in answers[2][1]["error"]["message"]
