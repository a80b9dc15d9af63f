"""A client of a NeMo Gym server that is none of the hub's: it seeds a session and asks `/verify`, as its agents do."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp

from rollouthub_servers.foreign.runtime import ForeignRuntime
from tests.foreign.cpu_time import cpu_seconds

SECONDS = 60.0
EXPECTED = ("expected_answer", "answer", "expected", "ground_truth", "label", "reference_answer", "gold")
NOT_ASKED = {"response", "reward", "agent_ref", "_ng_task_index", "_ng_rollout_index", "_ng_rollout_id"}


def probes(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Two answers to each row, in the form of recorded rollouts, each with its row: one says nothing, one says what is
    expected.
    """
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for row in rows:
        further: list[Any] = [row.get("verifier_metadata"), row.get("metadata")]
        places = [row, *(cast(dict[str, Any], each) for each in further if isinstance(each, dict))]
        known = [str(each[key]) for each in places for key in EXPECTED if isinstance(each.get(key), str | int | float)]
        params: Any = row.get("responses_create_params")
        for text in ("I do not know.", f"The answer is \\boxed{{{known[0]}}}" if known else "42"):
            part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
            if isinstance(params, dict) and "input" in params:
                found.append(({"responses_create_params": params, "response": {"output": [item]}}, row))
    return found


def matching(line: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The one row that asks what a line was asked; None where there is none, or several."""
    if _params(line).get("input") is None:
        return None
    wanted = plain(_params(line)["input"])
    found = [row for row in rows if plain(_params(row).get("input", ())) == wanted]
    return found[0] if len(found) == 1 else None


def _params(row: dict[str, Any]) -> dict[str, Any]:
    params: Any = row.get("responses_create_params")
    return cast(dict[str, Any], params) if isinstance(params, dict) else {}


def plain(value: Any) -> list[Any]:
    """An input without what recording adds."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items: list[Any] = []
    for item in value:
        kept = {key: each for key, each in item.items() if each is not None and (key, each) != ("type", "message")}
        kept |= {"role": "system"} if kept.get("role") == "developer" else {}
        content = kept.get("content")
        parts = cast(list[dict[str, Any]], content) if isinstance(content, list) else []
        if parts and all(set(part) <= {"type", "text"} for part in parts):
            kept["content"] = "\n".join(part["text"] for part in parts)
        items.append(kept)
    return items


class OwnServer:
    """A server that runs, asked directly."""

    def __init__(self, runtime: ForeignRuntime, schema: Any) -> None:
        self._runtime, self._schema = runtime, schema

    @classmethod
    async def of(cls, runtime: ForeignRuntime) -> "OwnServer":
        """Read what its routes take."""
        async with _opened(runtime) as http, http.get("http://server/openapi.json") as answer:
            return cls(runtime, await answer.json())

    async def verdict(self, line: dict[str, Any], row: dict[str, Any]) -> float | str:
        """What its verifier says of a line, in a session of its own, or why it says nothing."""
        if "/verify" not in self._schema["paths"]:
            return "it has no /verify"
        if not isinstance(line.get("response"), dict):
            return "it records no response"
        body, seed = self._request(line, row)
        route = "reset" if {"/reset", "/step"} <= set(self._schema["paths"]) else "seed_session"
        try:
            async with _opened(self._runtime) as http:
                async with http.post(f"http://server/{route}", json=seed) as answer:
                    if answer.status != 200:
                        return f"{route} answered {answer.status}"
                async with http.post("http://server/verify", json=body) as answer:
                    text = await answer.text()
                    if answer.status != 200:
                        return f"verify answered {answer.status}: {text[:200]}"
                    value = json.loads(text)
                    if value.get("mask_sample"):
                        return "masked"
                    reward = value["reward"]
                    return reward if isinstance(reward, int | float) else f"the reward {reward!r}"
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            return f"{type(error).__name__}: {error}"

    async def steps(self, row: dict[str, Any], text: str, most: int) -> float | str:
        """The sum of the rewards of so many steps, each with the same words, in a session of its own."""
        params = without_nulls(row["responses_create_params"])
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
        more = {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "parallel_tool_calls": True}
        response = {**more, "tool_choice": "auto", "tools": params.get("tools", []), "output": [item]}
        seed = {key: value for key, value in row.items() if key not in NOT_ASKED}
        total = 0.0
        try:
            async with _opened(self._runtime) as http:
                async with http.post("http://server/reset", json=seed) as answer:
                    if answer.status != 200:
                        return f"reset answered {answer.status}"
                for _ in range(most):
                    async with http.post("http://server/step", json={**seed, "response": response}) as answer:
                        if answer.status != 200:
                            return f"step answered {answer.status}"
                        value = await answer.json()
                    total += value["reward"]
                    if value.get("terminated") or value.get("truncated"):
                        break
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            return f"{type(error).__name__}: {error}"
        return total

    async def calls(self, tool: str, given: dict[str, Any], seed: dict[str, Any], count: int) -> float:
        """CPU seconds, of all processes, of so many tool calls of one session."""
        body = {"responses_create_params": {"input": "?"}, **seed}
        async with _opened(self._runtime) as http:
            async with http.post("http://server/seed_session", json=body) as answer:
                await answer.read()
            began = cpu_seconds()
            for _ in range(count):
                async with http.post(f"http://server/{tool}", json=given) as answer:
                    await answer.read()
            return cpu_seconds() - began

    def _request(self, line: dict[str, Any], row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        post = self._schema["paths"]["/verify"]["post"]
        models = self._schema["components"]["schemas"]
        asked = models[post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        shown = post["responses"]["200"]["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
        twice = set(models.get(shown, {}).get("properties", {})) - set(asked["properties"])
        params = without_nulls(row["responses_create_params"])
        response = without_nulls(line["response"])
        if "input_tokens" not in response.get("usage", {"input_tokens": 0}):
            del response["usage"]
        if (details := response.get("usage", {}).get("input_tokens_details")) is not None:
            details.setdefault("cache_write_tokens", 0)
            details.setdefault("cached_tokens", 0)
        if (details := response.get("usage", {}).get("output_tokens_details")) is not None:
            details.setdefault("reasoning_tokens", 0)
        more = {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "parallel_tool_calls": True}
        more |= {"tool_choice": params.get("tool_choice", "auto"), "tools": params.get("tools", [])}
        body = {key: value for key, value in row.items() if key not in NOT_ASKED | twice}
        body |= {"responses_create_params": params, "response": more | response}
        return body, {key: value for key, value in row.items() if key not in NOT_ASKED}


@asynccontextmanager
async def _opened(runtime: ForeignRuntime) -> AsyncGenerator[aiohttp.ClientSession]:
    """A client with cookies, of a session of its own."""
    async with runtime.session() as control:
        told = await control.ask("serve", seconds=control.process.program.start_seconds)
        connector = aiohttp.UnixConnector(str(control.process.socket.with_name(told["socket"])))
        timeout, jar = aiohttp.ClientTimeout(total=SECONDS), aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as http:
            yield http


def without_nulls(value: Any) -> Any:
    """JSON without its nulls."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {key: without_nulls(each) for key, each in fields.items() if each is not None}
    return [without_nulls(each) for each in cast(list[Any], value)] if isinstance(value, list) else value
