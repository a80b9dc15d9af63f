"""What vLLM and SGLang call the same things beside the OpenAI API: sessions, reasoning, and adapters."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rollouthub.errors import ModelError
from rollouthub.messages import Message
from rollouthub.models.direct.chat_wire import ReasoningField, WireMessage, to_wire
from rollouthub.models.endpoint import Dialect

SESSION_HEADERS: Mapping[Dialect, str] = {"vllm": "X-Session-ID", "sglang": "X-SMG-Routing-Key", "openai": ""}
"""Request header by which a router sends all calls of a session to the same server; SGLang's is read by its gateway and
by the server (`extract_routing_key`, sglang/srt/entrypoints/openai/serving_base.py of 0.5.23).
"""
REASONING_FIELDS: Mapping[Dialect, ReasoningField] = {
    "vllm": "reasoning",
    # `ChatCompletionMessageGenericParam`, sglang/srt/entrypoints/openai/protocol.py of 0.5.23; others are ignored.
    "sglang": "reasoning_content",
    "openai": "reasoning",
}
"""Field of a message with the assistant's reasoning."""


UNREADABLE = "INVALID_JSON"
"""The only field of an object that stands for arguments that are not a JSON object, where only objects are accepted."""


def dialect_wire(message: Message, media: Mapping[str, bytes], dialect: Dialect) -> WireMessage:
    """A message in the API's format, as a server takes it.

    SGLang refuses a conversation in which the arguments of a call are no JSON object (`parse_tool_call_arguments`,
    sglang/srt/entrypoints/openai/serving_chat.py of 0.5.23). Such arguments are the model's fault:
    it is shown them as an object that holds
    their text.

    Raises:
        ModelError: as `to_wire`.
    """
    field = REASONING_FIELDS[dialect]
    wire = to_wire(message, media, with_reasoning=dialect != "openai", reasoning_field=field)
    if dialect == "sglang":
        for call in wire.tool_calls or ():
            call.function.arguments = _as_object(call.function.arguments)
    return wire


def _as_object(arguments: str) -> str:
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, RecursionError):
        pass
    return msgspec.json.encode({UNREADABLE: arguments}).decode()


def adapter_fields(adapter: str, dialect: Dialect, owner: str) -> dict[str, Any]:
    """Request fields that choose a loaded LoRA adapter: vLLM serves it as a model, SGLang beside the model.

    Raises:
        ModelError: the server takes no adapters.
    """
    if dialect == "vllm":
        return {"model": adapter}
    if dialect == "sglang":
        return {"lora_path": adapter}
    raise ModelError(
        f"{owner}: adapter {adapter!r} cannot be asked for: adapters are taken by hosted_vllm/NAME and sglang/NAME",
        retryable=False,
    )
