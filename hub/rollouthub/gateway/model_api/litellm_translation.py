"""Translates requests of other APIs to chat completions by litellm; the callers undo litellm's unwanted changes.

Answers are written by the hub and not by litellm: litellm's Responses writer caches every tool call by its id in the
process, and its reader adds calls of one conversation to another.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import anyio.to_thread

from rollouthub.errors import ConfigError, describe
from rollouthub.gateway.model_api.dialect import CallProblem, CallRefused
from rollouthub.models.litellm.package import import_litellm, import_quietly

_APIS = {
    "responses": ("the Responses API", ("litellm.responses.litellm_completion_transformation.transformation",)),
    "messages": (
        "the Messages API",
        # The newest place first: an old one that still answers may warn.
        (
            "litellm.llms.anthropic.messages.adapters.transformation",
            "litellm.llms.anthropic.pass_through.adapters.transformation",
            "litellm.llms.anthropic.experimental_pass_through.adapters.transformation",
        ),
    ),
}
# litellm looks models up, to leave out what they do not take; of this one it knows nothing.
_NO_MODEL = "none"
_prepared: set[str] = set()


async def prepare(path: str) -> None:
    """Load what the dialect of a path needs, in a worker thread, because importing litellm takes about two seconds.

    Raises:
        CallRefused: litellm is not available.
    """
    if path in _APIS and path not in _prepared:
        await anyio.to_thread.run_sync(_module, path)
        _prepared.add(path)


def chat_of_responses(request: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a request of the Responses API to chat completions.

    Raises:
        ValueError: the body is not a valid request.
        CallRefused: litellm is not available.
    """
    config = _module("responses").LiteLLMCompletionResponsesConfig
    fields = {name: value for name, value in request.items() if name not in ("input", "stream")}
    chat = _translated(
        lambda: config.transform_responses_api_request_to_chat_completion_request(
            model=_NO_MODEL, input=request["input"], responses_api_request=fields
        )
    )
    return _with_media(chat)


def namespaces_of(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, tuple[str, str]]:
    """Map each function name that the model sees to its namespace and its name there.

    Raises:
        CallRefused: litellm is not available.
    """
    if not any(tool.get("type") == "namespace" for tool in tools):
        return {}
    config = _module("responses").LiteLLMCompletionResponsesConfig
    return _translated(lambda: config.namespace_tool_name_map(tools))


def chat_of_messages(request: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a request of the Messages API to chat completions.

    Raises:
        ValueError: the body is not a valid request.
        CallRefused: litellm is not available.
    """
    adapter = _module("messages").LiteLLMAnthropicMessagesAdapter()
    fields = {**request, "model": _NO_MODEL}
    return _with_media(_translated(lambda: adapter.translate_anthropic_to_openai(fields)[0]))


def _with_media(chat: dict[str, Any]) -> dict[str, Any]:
    """The chat with its sounds and files, which went through litellm as pictures: it would drop some of them."""
    for message in chat["messages"]:
        if isinstance(message.get("content"), list):
            message["content"] = [_uncarried(part) for part in message["content"]]
    return chat


def _uncarried(part: object) -> object:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} if not url.startswith("data:image/"):
            mime_type, _, encoded = url.removeprefix("data:").partition(";base64,")
            if mime_type.startswith("audio/"):
                sound = {"data": encoded, "format": mime_type.removeprefix("audio/")}
                return {"type": "input_audio", "input_audio": sound}
            return {"type": "file", "file": {"file_data": url}} if url.startswith("data:") else part
        case _:
            return part


def _translated(translate: Any) -> Any:
    """The result of litellm's code; an exception in it means that the agent's request is invalid."""
    try:
        return translate()
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"the request is not understood ({describe(error)})") from error


@cache
def _module(path: str) -> Any:
    api, names = _APIS[path]
    try:
        import_litellm(api)
    except ConfigError as error:
        raise CallRefused(CallProblem("invalid", 404, str(error), "litellm_missing")) from None
    for name in names:
        try:
            return import_quietly(name)
        except ModuleNotFoundError:
            continue
    problem = f"{api} goes through litellm, and the installed one has no such translation; 1.106.2 and 1.110.2 have"
    raise CallRefused(CallProblem("invalid", 404, problem, "litellm_missing"))
