"""The policy server: who may ask, and that ids, log-probabilities and versions are the engine's own."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import aiohttp
import anyio
import pytest

from rollouthub.errors import ConfigError, UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock import mock_server
from rollouthub.models.mock.development_routes import DevelopmentRoutes
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer
from rollouthub.trainers.policy.policy_server import MAX_REQUEST_BYTES, serve_policy
from rollouthub.trainers.policy.weight_files import read_weights

LEARNING = Path(__file__).parents[3] / "examples" / "learning"
ASKED = {"model": "policy", "messages": [{"role": "user", "content": "look at the lamp"}], "max_tokens": 4}


MODEL = SimpleNamespace(config=SimpleNamespace(), generation_config=None)
TOKENIZER = SimpleNamespace(pad_token_id=0, eos_token_id=1)
"""Of a policy that nobody gets to ask anything."""


@pytest.mark.parametrize(
    ("host", "key"), [("0.0.0.0", None), ("::", None), ("", None), ("127.0.0.1.example", None), ("127.0.0.1", "")]
)
async def test_a_policy_is_not_open_to_a_network_without_a_key(host: str, key: str | None) -> None:
    with pytest.raises(ConfigError, match="api_key"):
        async with serve_policy(MODEL, TOKENIZER, host=host, api_key=key):
            pass


async def test_pages_of_a_browser_are_kept_out_whatever_name_was_rebound_to_it() -> None:
    async with serve_policy(MODEL, TOKENIZER) as url, aiohttp.ClientSession() as session:
        port = url.removesuffix("/v1").rpartition(":")[2]
        for headers, expected in (
            ({"Host": f"evil.example:{port}"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}, 200),
            (dict[str, str](), 200),
        ):
            async with session.get(f"{url}/models", headers=headers) as response:
                assert response.status == expected
            if expected != 200:
                async with session.post(f"{url}/chat/completions", data=b"{", headers=headers) as response:
                    assert response.status == expected
                    assert "foreign" in (await response.json())["error"]["message"]


async def test_bodies_are_bounded_in_size_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_policy(MODEL, TOKENIZER) as url, aiohttp.ClientSession() as session:
        async with session.post(f"{url}/chat/completions", data=BytesIO(b" " * (MAX_REQUEST_BYTES + 1))) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (413, 413)
        monkeypatch.setattr(mock_server, "BODY_SECONDS", 0.05)
        asked = anyio.Event()

        async def never() -> AsyncGenerator[bytes]:
            yield b"{"
            await asked.wait()

        async with session.post(f"{url}/chat/completions", data=never()) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (408, 408)
        asked.set()


async def answer(url: str, key: str | None = None, **more: Any) -> tuple[int, dict[str, Any], str | None]:
    """One call: status, body and version."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/chat/completions", json={**ASKED, **more}) as response,
    ):
        return response.status, await response.json(), response.headers.get("X-Policy-Version")


@pytest.mark.live
async def test_answers_carry_the_ids_and_logprobs_of_the_weights_in_memory(
    system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = system("torch")
    system("transformers")
    monkeypatch.setattr(sys, "path", [str(LEARNING), *sys.path])
    policy: Any = __import__("calculator_policy")
    tokenizer = policy.trained_tokenizer(["<|im_start|>user\nlook at the lamp<|im_end|>\n<|im_start|>assistant\n"])
    model = policy.random_model(tokenizer, 0)
    async with serve_policy(model, tokenizer, api_key="secret", version=lambda: 7) as url:
        assert (await answer(url))[0] == 401
        assert (await answer(url, "wrong"))[0] == 401
        wanted = {"logprobs": True, "return_token_ids": True, "temperature": 0.5, "seed": 3}
        status, body, version = await answer(url, "secret", **wanted)
        assert (status, version) == (200, "7")
        again = (await answer(url, "secret", **wanted))[1]
        assert (await answer(url, "secret", top_k=5))[0] == 400
        assert (await answer(url, "secret", max_tokens=0))[0] == 400
    (choice,) = body["choices"]
    assert choice["token_ids"] == again["choices"][0]["token_ids"], "a seed repeats"
    prompt, sampled = body["prompt_token_ids"], choice["token_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1] / 0.5
    expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(sampled)[:, None])[:, 0].tolist()
    assert [entry["logprob"] for entry in choice["logprobs"]["content"]] == pytest.approx(expected, abs=1e-5)


async def test_the_routes_of_a_trainer_need_the_key_and_refuse_what_they_cannot_read() -> None:
    loaded = list[str]()
    bodies: list[tuple[str, bytes]] = [
        *[("collective_rpc", body) for body in (b"", b"{", b"[]", b"1", b'{"method":"sleep"}')],
        ("collective_rpc", b'{"method":"reload_weights","kwargs":null}'),
        ("collective_rpc", b'{"method":"reload_weights","kwargs":[1]}'),
        ("collective_rpc", b'{"method":"reload_weights","kwargs":{"weights_path":1}}'),
        *[("update_weight_version", body) for body in (b"[]", b"{}", b'{"new_version":"1\\r\\nX: y"}')],
    ]
    reload = b'{"method":"reload_weights","kwargs":{"weights_path":"/weights"}}'
    key = {"Authorization": "Bearer secret"}
    async with (
        serve_policy(MODEL, TOKENIZER, api_key="secret", load=loaded.append) as url,
        aiohttp.ClientSession(url.removesuffix("v1")) as session,
    ):
        for path in ("pause", "resume", "reset_prefix_cache", "collective_rpc", "update_weight_version"):
            async with session.post(path, data=reload) as response:
                assert response.status == 401
        for path in ("is_paused", "weight_info"):
            async with session.get(path) as response:
                assert response.status == 401
        assert loaded == []
        for path, body in bodies:
            async with session.post(path, data=body, headers=key) as response:
                assert (response.status, "error" in await response.json()) == (400, True), body
        async with session.post("collective_rpc", data=reload, headers=key) as response:
            assert response.status == 200
        async with session.get("health") as response:
            assert response.status == 200
    assert loaded == ["/weights"]


async def test_a_paused_policy_streams_nothing_until_it_is_resumed() -> None:
    model = MockModel(ModelConfig(name="mock/say?text=done"))
    server = ModelServer(model, ["policy"], is_mock=False, control=DevelopmentRoutes())
    async with (
        mock_server.listening(server, "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}/") as session,
    ):
        (await session.post("pause")).close()
        with anyio.move_on_after(0.2) as waiting:
            await session.post("v1/chat/completions", json={**ASKED, "stream": True})
        assert waiting.cancelled_caught
        (await session.post("resume")).close()
        async with session.post("v1/chat/completions", json={**ASKED, "stream": True}) as response:
            assert "done" in await response.text()


@pytest.mark.parametrize("version", ["", "x" * 101, "a\nb", "\u00fc", ["1"], None, 1.5])
async def test_a_version_that_no_header_holds_is_refused(version: Any) -> None:
    server = ModelServer(MockModel(ModelConfig(name="mock/echo")), ("mock",))
    async with mock_server.listening(server, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}"
        async with session.post(f"{url}/update_weight_version", json={"new_version": version}) as response:
            assert response.status == 400
        assert server.control is not None
        assert server.control.headers is None
        for number in range(3):
            async with session.post(f"{url}/collective_rpc", json={"method": f"{number}" * 10**5}) as response:
                assert response.status == 200
    assert max(map(len, server.control.calls)) == 100


async def test_a_conversation_of_millions_of_values_is_refused_before_it_is_read() -> None:
    said = ",".join(['{"role":"user","content":""}'] * 100_000)
    body = BytesIO(f'{{"model":"policy","messages":[{said}]}}'.encode())
    async with (
        serve_policy(MODEL, TOKENIZER) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", data=body) as answer,
    ):
        assert answer.status == 400
        assert "50,000 values" in (await answer.json())["error"]["message"]


def test_a_pipe_in_a_folder_of_weights_hangs_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="has no"):
        read_weights(tmp_path)
