"""Serves a trainer's own policy over the OpenAI API, with token ids, log-probabilities and the policy version."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.http.loopback import is_local_host
from rollouthub.models.tokens import ChatFormat, HfChatFormat, TokenModel
from rollouthub.trainers.policy.policy_engine import PolicyEngine

MAX_REQUEST_BYTES = 16 * 2**20
"""Most bytes of a request: a text-only conversation is always smaller."""


@asynccontextmanager
async def serve_policy(
    model: Any,
    tokenizer: Any,
    *,
    name: str = "policy",
    host: str = "127.0.0.1",
    port: int = 0,
    api_key: str | None = None,
    chat: ChatFormat | None = None,
    tool_parser: str = "hermes",
    version: Callable[[], int] | None = None,
    max_batch: int = 128,
    load: Callable[[str], None] | None = None,
) -> AsyncGenerator[str]:
    """Serve a `transformers` model with its current weights. Yields the base URL, for `hosted_vllm/NAME`.

        async with serve_policy(model, tokenizer) as url:
            async with rollout_worker(model="hosted_vllm/policy", base_url=url, …) as worker:
                ...

    The token ids of each session are remembered: a prompt begins with exactly the tokens that were sampled before it.
    `chat` renders conversations; by default the tokenizer's own template with `tool_parser`. `version` returns the
    policy's version, which is sent as `X-Policy-Version`. With `load`, which loads the weights in a folder, the server
    has vLLM's development routes, for `VllmControl`, and sends the version that these set. Port 0 picks a free port. On
    a non-loopback address `api_key` is required; on the loopback, requests from pages in a browser are refused.

    Raises:
        ConfigError: the server would be open to a network, the key is empty, or no parser has that name.
        OSError: the port is taken.
    """
    # aiohttp's server, and only where needed
    from rollouthub.models.mock.development_routes import DevelopmentRoutes
    from rollouthub.models.mock.mock_server import ModelServer, listening

    where = f"[{host}]" if ":" in host else host
    if api_key == "":
        raise ConfigError("the policy's api_key is empty; give one, or None for a policy on 127.0.0.1")
    if api_key is None and not is_local_host(host):
        raise ConfigError(f"a policy on {host!r} is open to a network: give an api_key, or serve it on 127.0.0.1")
    ends, padding = end_ids(model, tokenizer), tokenizer.pad_token_id or 0
    engine = PolicyEngine(model, end_ids=ends, pad_id=padding, max_batch=max_batch, version=version)

    async def load_idle(folder: str) -> None:
        assert load is not None
        await engine.while_idle(load, folder)

    context = getattr(model.config, "max_position_embeddings", None)
    spoken = TokenModel(name, engine, chat or HfChatFormat(tokenizer, tool_parser=tool_parser), max_context=context)
    server = ModelServer(
        spoken,
        (name, f"hosted_vllm/{name}"),
        api_key,
        is_mock=False,
        shows_tokens=True,
        max_request_bytes=MAX_REQUEST_BYTES,
        control=None if load is None else DevelopmentRoutes(load_idle),
    )
    async with listening(server, host, port) as bound:
        yield f"http://{where}:{bound}/v1"


def end_ids(model: Any, tokenizer: Any) -> set[int]:
    """The token ids that end an answer: those of the tokenizer and of the model's generation config."""
    known: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    found: list[Any] = [tokenizer.eos_token_id, *(known if isinstance(known, list | tuple) else [known])]
    return {each for each in found if isinstance(each, int)}
