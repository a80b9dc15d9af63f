"""Whatever an agent sends, a dialect reads it or says what is wrong with it: nothing else comes out."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouthub.gateway.model_api.anthropic_messages import count_tokens
from rollouthub.gateway.model_api.dialects import PATHS, dialect_of
from rollouthub.generation import ModelReply
from rollouthub.messages import assistant
from tests.strategies import json_values

WORDS = [
    "type",
    "role",
    "content",
    "text",
    "name",
    "id",
    "call_id",
    "input",
    "output",
    "arguments",
    "function",
    "tool_calls",
    "tools",
    "tool_use_id",
    "thinking",
    "source",
    "data",
    "media_type",
    "image_url",
    "url",
    "summary",
    "encrypted_content",
    "parameters",
    "input_schema",
    "signature",
    "namespace",
    "stop",
    "model",
]
KINDS = [
    "text",
    "user",
    "assistant",
    "tool",
    "system",
    "developer",
    "function",
    "custom",
    "namespace",
    "message",
    "reasoning",
    "function_call",
    "tool_result",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "tool_use",
    "thinking",
    "image",
    "image_url",
    "input_text",
    "document",
    "input_image",
    "output_text",
    "refusal",
    "base64",
    "auto",
    "none",
    "any",
    "required",
    "web_search",
    "computer_call_output",
    "json_schema",
]
odd = st.recursive(
    json_values | st.sampled_from(KINDS) | st.integers(2**64, 2**70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)
FIELDS = [
    "messages",
    "input",
    "tools",
    "tool_choice",
    "system",
    "instructions",
    "stop",
    "stop_sequences",
    "max_tokens",
    "max_output_tokens",
    "text",
    "stream",
    "parallel_tool_calls",
    "response_format",
    "output_format",
    "output_config",
    "include",
    "stream_options",
    "n",
    "model",
]
bodies = st.fixed_dictionaries(
    {"messages": st.lists(odd, max_size=3), "input": odd},
    optional={name: odd for name in FIELDS if name not in ("messages", "input")},
)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=bodies)
def test_odd_requests_are_read_or_refused(path: str, request: dict[str, Any]) -> None:
    dialect = dialect_of(path)
    assert dialect is not None
    try:
        asked = dialect.read(json.dumps(request).encode())
    except ValueError:
        return
    reply = ModelReply(message=assistant("x"))
    events = dialect.events(asked, "1")
    assert dialect.whole(asked, reply, "1") and events.begin() + events.end(reply)


@settings(max_examples=40, deadline=None)
@given(body=bodies.map(lambda request: json.dumps(request).encode()) | st.binary(max_size=20))
def test_tokens_of_odd_requests_are_estimated_or_refused(body: bytes) -> None:
    try:
        assert json.loads(count_tokens(body))["input_tokens"] > 0
    except ValueError:
        return
