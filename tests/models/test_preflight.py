"""One request before a run says what is wrong with it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web

from rollouthub import Sampling
from rollouthub.errors import ConfigError, CredentialError, UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.preflight import ParticularModel, preflight
from rollouthub.models.resolve import open_lane, open_model
from tests.models.servers import direct, mock_server, raw_server, serving


@asynccontextmanager
async def listing(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_get("/v1/models", handle)
    async with serving(app) as url:
        yield url


async def test_a_server_that_serves_the_model_passes() -> None:
    async with mock_server() as url, direct(url) as model:
        await preflight(model)


async def test_a_mock_needs_no_server() -> None:
    await preflight(MockModel(ModelConfig(name="mock/echo")))


async def test_an_unreachable_server_is_one_clear_error() -> None:
    async with raw_server(b"") as url:
        pass
    async with direct(url) as model:
        with pytest.raises(UsageError) as caught:
            await preflight(model)
    told = str(caught.value)
    assert url in told
    assert "nothing listens at 127.0.0.1:" in told
    assert "(connection refused)" in told
    assert "Check that it runs" in told
    assert len(told.splitlines()) < 5


async def test_a_server_that_is_silent_is_unreachable() -> None:
    done = anyio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        await done.wait()
        return web.Response()

    async with listing(never) as url, direct(url) as model:
        with pytest.raises(UsageError, match=r"no answer within 0\.05 s"):
            await preflight(model, timeout_seconds=0.05)
        done.set()


@pytest.mark.parametrize(
    ("key", "hint"), [(None, "set HOSTED_VLLM_API_KEY"), ("wrong-key", "check the key in HOSTED_VLLM_API_KEY")]
)
async def test_a_refused_key_is_a_credential_error(key: str | None, hint: str) -> None:
    async with mock_server(api_key="right-key") as url, direct(url, api_key=key) as model:
        with pytest.raises(CredentialError, match=hint) as caught:
            await preflight(model)
    assert "-key" not in str(caught.value)


async def test_a_model_the_server_does_not_have_is_met_with_the_nearest() -> None:
    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "server"}, {"id": "tiny"}]})

    async with listing(models) as url, direct(url) as model:
        with pytest.raises(ConfigError, match=r"no model 'served'; did you mean 'server'\? It serves: server, tiny"):
            await preflight(model)


@pytest.mark.parametrize("answer", ["404", "500", "nonsense", "empty"])
async def test_any_other_answer_counts_as_reachable(answer: str) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if answer.isdigit():
            return web.Response(status=int(answer))
        return web.Response(text="hello" if answer == "nonsense" else '{"data": []}')

    async with listing(handle) as url, direct(url) as model:
        await preflight(model)


async def test_a_web_page_is_no_model_server() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="\n<html>Welcome</html>", content_type="text/html")

    async with listing(page) as url, direct(url) as model:
        with pytest.raises(ConfigError, match="answers with a web page"):
            await preflight(model)


async def test_a_redirect_is_met_before_the_run() -> None:
    async def elsewhere(request: web.Request) -> web.StreamResponse:
        raise web.HTTPMovedPermanently("https://127.0.0.1/v1/models")

    async with listing(elsewhere) as url, direct(url) as model:
        with pytest.raises(ConfigError, match=r"redirect \(HTTP 301\); give the final base URL"):
            await preflight(model)


async def test_a_server_without_tls_is_called_so() -> None:
    async with mock_server() as url, direct(url.replace("http:", "https:")) as model:
        with pytest.raises(UsageError, match="does not speak TLS; try http:// instead of https://"):
            await preflight(model)


KEYS = Credentials({"OPENAI_API_KEY": "k" * 8, "ANTHROPIC_API_KEY": "k" * 8})


@pytest.mark.parametrize(
    ("name", "sampling", "named"),
    [
        (
            "anthropic/claude-haiku-4-5",
            Sampling(seed=1),
            r"does not take 'seed'.*\(a run's seed is the model's, too\)$",
        ),
        ("anthropic/claude-haiku-4-5", Sampling(extra={"logprobs": True}), "does not take 'logprobs'"),
        ("openai/gpt-5-mini", Sampling(temperature=0.3), r"temperature=0\.3.*; leave it out of the sampling$"),
        ("openai/o3", Sampling(extra={"num_retries": 3}), r"sampling\.extra sets 'num_retries'"),
    ],
)
async def test_what_a_provider_does_not_take_is_told_before_the_run(name: str, sampling: Sampling, named: str) -> None:
    async with open_lane(ModelConfig(name=name), None, KEYS) as lane:
        assert isinstance(lane, ParticularModel)
        with pytest.raises(ConfigError, match=named) as caught:
            await preflight(lane, sampling=sampling)
        assert "litellm" not in str(caught.value)
        await lane.check_sampling(Sampling(max_tokens=20, extra={"of_its_own": 1}))


async def test_what_a_model_that_stands_in_does_not_take_is_told_too() -> None:
    fallback = ModelConfig(name="anthropic/claude-haiku-4-5")
    async with open_model(ModelConfig(name="mock/echo", fallbacks=(fallback,)), KEYS) as model:
        with pytest.raises(ConfigError, match=r"claude-haiku-4-5.*'seed'"):
            await preflight(model, sampling=Sampling(seed=1))


async def test_fields_the_hub_sets_itself_are_no_parameters() -> None:
    sampling = Sampling(extra={"model": "another"})
    async with mock_server() as url, direct(url) as model:
        with pytest.raises(ConfigError, match=r"sampling\.extra sets 'model', which the hub sets itself"):
            await preflight(model, sampling=sampling)
        with pytest.raises(ConfigError, match="sets 'model'"):
            async with direct(url, sampling=sampling):
                pass
