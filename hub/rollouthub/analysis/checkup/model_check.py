"""Check whether a model can be used, from resolving its server's name to calling it; each step names its own cause."""

import socket
import ssl
import time
from collections.abc import AsyncIterator

import anyio
from mcp_types import Tool
from yarl import URL

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.analysis.run_doctor.causes import cause_of
from rollouthub.errors import HubError, ModelError, UsageError
from rollouthub.generation import Model, ModelReply, ModelRequest, Sampling
from rollouthub.messages import Message
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import addressed, open_model

STEP_SECONDS = 5.0
CALL_SECONDS = 60.0
SLOW_CONNECT = 0.25
_ANSWER_TOKENS = 64
_TOOL = Tool(
    name="add",
    description="Add two whole numbers.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


async def model_findings(config: ModelConfig, credentials: Credentials) -> AsyncIterator[Finding]:
    """Check a model step by step, ending after a failed step. Makes two short model calls."""
    found = addressed(config, credentials)
    for base_url in filter(None, (found.base_url, *found.replicas)):
        for finding in await _reach(URL(base_url)):
            yield finding
            if finding.state == "broken":
                return
    try:
        async with open_model(config, credentials) as model:
            await preflight(model, STEP_SECONDS)
            says = "answers in this process" if config.name.startswith("mock/") else "is there, and takes the key"
            yield Finding("model", "ok", f"{config.name} {says}")
            async for finding in _calls(model):
                yield finding
    except HubError as error:
        yield _failed("model", error)


async def _reach(url: URL) -> list[Finding]:
    """Check the steps of a connection: name resolution, TCP connection, TLS."""
    host, port = url.host or "", url.port or 0
    name = f"{host}:{port}"
    try:
        with anyio.fail_after(STEP_SECONDS):
            await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        return [Finding("server's name", "broken", f"{host!r} cannot be resolved (DNS): {error}", "mend --base-url")]
    context = ssl.create_default_context() if url.scheme == "https" else None
    started = time.perf_counter()
    try:
        with anyio.fail_after(STEP_SECONDS):
            async with await anyio.connect_tcp(host, port) as plain:
                seconds = time.perf_counter() - started
                if context is not None:
                    from anyio.streams.tls import TLSStream

                    await TLSStream.wrap(plain, hostname=host, ssl_context=context)
    except ssl.SSLError as error:
        mend = "is it http:// rather than https://? else the certificate, or the clock here, is wrong"
        return [Finding("server's TLS", "broken", f"{name}: {error}", mend)]
    except TimeoutError:
        mend = "a firewall or a wrong address; nothing refused the connection"
        return [Finding("server", "broken", f"{name} does not answer within {STEP_SECONDS:g} s", mend)]
    except OSError as error:
        mend = "nothing listens there: start the server, or mend --base-url"
        return [Finding("server", "broken", f"{name} refuses: {error.__cause__ or error}", mend)]
    says = f"{name} answers within {seconds * 1e3:.1f} ms"
    if seconds > SLOW_CONNECT:
        return [Finding("server", "poor", says, "far away: every call pays it; play nearer to it, or raise -c")]
    return [Finding("server", "ok", says)]


async def _calls(model: Model) -> AsyncIterator[Finding]:
    """Make one plain model call, and one with a tool."""
    question = Message(role="user", content="What is 2 + 2? Answer with the number.")
    started = time.perf_counter()
    try:
        reply = await model.generate(_request(question, ()))
    except HubError as error:
        yield _failed("model call", error)
        return
    seconds = time.perf_counter() - started
    tokens = reply.usage.output_tokens
    says = f"answers in {seconds:.2f} s, {tokens} output tokens" + (f" ({tokens / seconds:.0f}/s)" if seconds else "")
    if not (reply.message.text or reply.message.reasoning or reply.message.tool_requests):
        mend = "check the server's chat template and reasoning parser"
        yield Finding("model call", "poor", f"{says}, but its answer is empty", mend)
    elif not tokens:
        yield Finding("model call", "poor", f"{says}: it does not count them", "limits of tokens and cost cannot hold")
    else:
        yield Finding("model call", "ok", says)
    yield _token_finding(reply)
    try:
        reply = await model.generate(_request(Message(role="user", content="Add 2 and 3 with the tool."), (_TOOL,)))
    except HubError as error:
        mend = (
            "gsm8k, math and their like play without tools (single_turn) by default; for others, or -a tool_loop, "
            "start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME"
        )
        yield Finding("tool calls", "poor", f"refused: {error}", mend)
        return
    called = [request.name for request in reply.message.tool_requests or ()]
    if "add" in called:
        yield Finding("tool calls", "ok", "it called the tool it was given")
    else:
        mend = "where this goes on, look at the server's tool-call parser"
        yield Finding("tool calls", "missing", "it was given a tool, and did not call it this time", mend)


def _token_finding(reply: ModelReply) -> Finding:
    has_ids, has_logprobs = reply.output_token_ids is not None, reply.output_logprobs is not None
    if has_ids and has_logprobs:
        return Finding("token ids and logprobs", "ok", "there: rollouts can be trained on")
    lacking = " and ".join(name for name, has in (("token ids", has_ids), ("logprobs", has_logprobs)) if not has)
    return Finding("token ids and logprobs", "missing", f"no {lacking}; only training needs them", "serve it with vLLM")


def _request(message: Message, tools: tuple[Tool, ...]) -> ModelRequest:
    sampling = Sampling(max_tokens=_ANSWER_TOKENS)
    return ModelRequest([message], tools=tools, sampling=sampling, timeout_seconds=CALL_SECONDS)


def _failed(name: str, error: HubError) -> Finding:
    """A `broken` finding for an error; its remedy comes from the error's likely cause, unless the message names one
    itself.
    """
    status = error.status if isinstance(error, ModelError) else None
    mend = "" if isinstance(error, UsageError) else cause_of("model", status, str(error)).mend
    return Finding(name, "broken", str(error), mend)
