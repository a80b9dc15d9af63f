"""`hub run --lane openai`, as people type it: a loop with tools over the Responses API, and what its record keeps."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from rollouthub.store import open_run
from tests.models.openai_server import MODEL, OpenAIServer, call_item, message_item, reasoning_item

from .conftest import Hub


def say(body: dict[str, Any]) -> list[dict[str, Any]]:
    """A model that thinks before it calls the calculator, and again before it answers."""
    turn = sum(item.get("type") == "function_call_output" for item in body["input"])
    if turn == 0:
        return [reasoning_item("sealed-0", "I calculate."), call_item("calculate", '{"expression": "6 * 7"}')]
    return [reasoning_item("sealed-1", number=1), message_item("42", 1)]


async def test_a_loop_with_tools_sends_its_reasoning_back_and_keeps_it(hub: Hub, tmp_path: Path) -> None:
    server = OpenAIServer(say)
    options = ("-m", f"openai/{MODEL}", "--lane", "openai", "--api", "responses", "--limit", "1", "-o", "run", "--json")
    async with server.serve() as url:
        keys = {"OPENAI_API_KEY": "hush-hush-hush", "OPENAI_BASE_URL": url}
        done = await anyio.to_thread.run_sync(partial(hub, "run", "arithmetic", "-a", "tool_loop", *options, **keys))
    assert done.code == 0, done.err
    (_, _), (_, second) = server.asked
    thought = [item for item in second["input"] if item.get("type") == "reasoning"]
    assert thought == [reasoning_item("sealed-0", "I calculate.")]
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    first, last = rollout.turns
    assert first.response.reasoning == "I calculate."
    assert [
        item["encrypted_content"] for turn in (first, last) for item in json.loads(turn.response.items or "[]")[:1]
    ] == [
        "sealed-0",
        "sealed-1",
    ]
    assert (first.usage.cached_tokens, first.usage.reasoning_tokens) == (30, 5)
    assert "hush-hush" not in "".join(
        path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*") if path.is_file()
    )


async def test_a_seed_with_the_responses_api_is_refused_before_anything_is_asked(hub: Hub) -> None:
    server = OpenAIServer(say)
    options = ("-m", f"openai/{MODEL}", "--api", "responses", "--seed", "1")
    async with server.serve() as url:
        keys = {"OPENAI_API_KEY": "hush-hush-hush", "OPENAI_BASE_URL": url}
        done = await anyio.to_thread.run_sync(partial(hub, "run", "arithmetic", *options, **keys))
    assert "--api chat" in done.refused()
    assert server.asked == []
