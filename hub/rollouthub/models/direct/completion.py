"""Parses chat-completions answers; fields that the hub does not use are skipped without parsing.

Structs rather than pydantic models: this is the measured hot path.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from rollouthub.generation import ModelReply
from rollouthub.messages import Message, ToolRequest
from rollouthub.models.direct.answer_bounds import BadAnswer, check_calls, check_crowding
from rollouthub.models.prices import Price
from rollouthub.models.text_ends import text_ends
from rollouthub.models.weight_spans import WeightSpan, span_versions, version_number
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Token count of one call, small enough that sums over many calls fit the store's columns."""
MOST_DOLLARS = 1e6
"""Most US dollars that one call may be said to cost."""
Dollars = Annotated[float, Meta(ge=0, le=MOST_DOLLARS)]
Scalar = str | int | float | bool | None
"""A field that the hub passes on or leaves out, and that is no list of millions."""
MOST_REASON, _MOST_ID = 64, 256
"""Most characters that are kept of a finish reason, and of an answer's id."""
_MOST_BYTES_A_TOKEN = 100


class Function(Struct, gc=False):
    """The function name and arguments of a tool call."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CalledTool(Struct, gc=False):
    """One tool call of an answer."""

    function: Function
    id: str | None = None


class Said(Struct, gc=False):
    """The message in an answer: text, tool calls, reasoning or refusal."""

    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[CalledTool] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None


class CompletionLogprob(Struct, gc=False):
    """The log-probability entry of one token."""

    logprob: float


class Logprobs(Struct, gc=False):
    """The entries of all tokens, in order."""

    content: list[CompletionLogprob] | None = None


class Choice(Struct, gc=False):
    """One choice of an answer: its message, finish reason, log-probabilities and token ids."""

    message: Said
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    """SGLang's place for the prompt's ids, and `response_token_ids` for the answer's, with `return_token_ids`."""
    response_token_ids: list[int] | None = None
    matched_stop: int | str | None = None
    """SGLang's: the token id or text that ended the answer."""


class SglangIds(Struct, gc=False):
    """Token ids of an answer in SGLang's own part of a body or of a stream's last chunks."""

    input_ids: list[int] | None = None
    output_ids: list[list[int]] | None = None


class WeightMetadata(Struct, gc=False):
    """The weight version with which SGLang finished an answer, and the spans of all versions."""

    weight_version: int | str | None = None
    weight_versions: list[WeightSpan] | None = None


class PromptDetails(Struct, gc=False):
    """Details of the prompt's token count."""

    cached_tokens: Count | None = None


class OutputDetails(Struct, gc=False):
    """Details of the answer's token count."""

    reasoning_tokens: Count | None = None


class Counted(Struct, gc=False):
    """The server's token counts of a call."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    cost: Dollars | None = None
    """The call's cost in US dollars, if the server reports it."""


class Answer(Struct, gc=False):
    """The body of an answer, restricted to the fields that the hub uses."""

    choices: list[Choice] = []
    id: Scalar = None
    usage: Counted | None = None
    prompt_token_ids: list[int] | None = None
    weight_version: int | str | None = None
    metadata: WeightMetadata | None = None
    sglext: SglangIds | None = None
    error: Any = None
    token_bytes: list[list[int]] | None = None
    """The bytes that each output token stands for; set by `parse_answer` where they are asked for."""


class _TokenBytes(Struct, gc=False):
    bytes: list[int]


class _BytesLogprobs(Struct, gc=False):
    content: list[_TokenBytes]


class _BytesChoice(Struct, gc=False):
    logprobs: _BytesLogprobs


class _BytesAnswer(Struct, gc=False):
    """The bytes of a body's output tokens; they are decoded only on request."""

    choices: list[_BytesChoice]


_decoder = msgspec.json.Decoder(Answer)
_bytes_decoder = msgspec.json.Decoder(_BytesAnswer)


def parse_answer(body: bytes, *, with_bytes: bool = False, takes_broken: bool = False) -> Answer:
    """Decode a body; with `with_bytes`, also the bytes of its output tokens, if the server gives them for all.

    `takes_broken` also takes an answer that the server broke off.

    Raises:
        BadAnswer: the body is not JSON, not a chat completion, or has no choice.
    """
    try:
        check_crowding(body)
        answer = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the answer is not a chat completion ({error})") from None
    if not answer.choices:
        detail = f": {error_words(answer.error)}" if answer.error is not None else ""
        raise BadAnswer(f"the answer has no choices{detail}", answer.error)
    if answer.choices[0].finish_reason in ("abort", "error") and not takes_broken:
        raise BadAnswer("the server broke off the answer")
    answer.token_bytes = _token_bytes(body) if with_bytes else None
    return answer


def _token_bytes(body: bytes) -> list[list[int]] | None:
    if body.count(b",") > _MOST_BYTES_A_TOKEN * (body.count(b"logprob") + 1000):
        return None
    try:
        return [entry.bytes for entry in _bytes_decoder.decode(body).choices[0].logprobs.content]
    except msgspec.DecodeError:  # a token has none, or no logprobs came
        return None


def as_reply(
    answer: Answer, *, turn: int, version_header: str | None, price: Callable[[int, int], float | None], retries: int
) -> tuple[ModelReply, bool]:
    """The `ModelReply` of an answer, and whether its log-probabilities had to be dropped; `price` takes prompt and
    output tokens.

    Token ids are unchanged. Log-probabilities are dropped if there are token ids and their number differs, because
    misaligned ones would be trained on at the wrong tokens.

    Raises:
        BadAnswer: a token id or log-probability does not fit 32 bits, or there are too many tool calls.
    """
    choice = answer.choices[0]
    said = choice.message
    content, calls = said.content, said.tool_calls
    check_calls(len(calls or ()))
    if not isinstance(content, str):
        content = words_of(content) if content else (said.refusal or "")
    logprobs = choice.logprobs.content if choice.logprobs is not None else None
    prompt, ids = _ids(answer)
    is_dropped = logprobs is not None and ids is not None and len(logprobs) != len(ids)
    try:
        prompt_ids = None if prompt is None else Int32s(prompt)
        output_ids = None if ids is None else Int32s(ids)
        output_logprobs = None if logprobs is None or is_dropped else Float32s([entry.logprob for entry in logprobs])
    except struct.error:
        raise BadAnswer("the answer has a token id that does not fit 32 bits") from None
    except OverflowError:
        raise BadAnswer("the answer has a logprob that does not fit 32 bits") from None
    usage = _usage(answer, prompt, ids)
    message = Message(
        role="assistant",
        content=content,
        reasoning=said.reasoning or said.reasoning_content or None,
        tool_requests=tuple(_request(call, turn, place) for place, call in enumerate(calls)) if calls else (),
    )
    reply = ModelReply(
        message=message,
        finish_reason=choice.finish_reason and choice.finish_reason[:MOST_REASON],
        usage=usage,
        cost=_cost(answer, price(usage.prompt_tokens, usage.output_tokens)),
        prompt_token_ids=prompt_ids,
        output_token_ids=output_ids,
        output_logprobs=output_logprobs,
        output_text_ends=_text_ends(answer, ids, message),
        **_versions(answer, version_header, 0 if ids is None else len(ids)),
        retries=retries,
        response_id=answer.id if isinstance(answer.id, str) and len(answer.id) <= _MOST_ID else None,
    )
    return reply, is_dropped


def _ids(answer: Answer) -> tuple[list[int] | None, list[int] | None]:
    """The ids of prompt and answer, from the places of vLLM and SGLang."""
    choice, own = answer.choices[0], answer.sglext
    prompt = answer.prompt_token_ids if answer.prompt_token_ids is not None else choice.prompt_token_ids
    ids = choice.token_ids if choice.token_ids is not None else choice.response_token_ids
    if own is not None:
        prompt = own.input_ids if prompt is None else prompt
        ids = own.output_ids[0] if ids is None and own.output_ids else ids
    return prompt, ids


def _versions(answer: Answer, header: str | None, count: int) -> dict[str, Any]:
    """The policy version at the answer's start, and those of its tokens if they differ."""
    told = answer.metadata
    if header is not None or told is None:
        return {"policy_version": version_number(header if header is not None else answer.weight_version)}
    versions = span_versions(told.weight_versions or (), count)
    if versions is not None and versions[0] != versions[-1]:
        return {"policy_version": versions[0], "policy_versions": Int32s(versions)}
    return {"policy_version": version_number(told.weight_version)}


def _text_ends(answer: Answer, ids: list[int] | None, message: Message) -> Int32s | None:
    """Where the answer's tokens end in its text, if the bytes of each token are known."""
    pieces = answer.token_bytes
    if pieces is None or ids is None or len(pieces) != len(ids):
        return None
    try:
        return text_ends([bytes(piece) for piece in pieces], message)
    except ValueError:
        return None  # the server's numbers are no bytes


def _usage(answer: Answer, prompt_ids: list[int] | None, ids: list[int] | None) -> Usage:
    """The server's token counts; without them, the number of token ids."""
    usage = answer.usage
    if usage is None:
        return Usage(prompt_tokens=len(prompt_ids or ()), output_tokens=len(ids or ()))
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    prompt_tokens = usage.prompt_tokens or 0
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=usage.completion_tokens or 0,
        cached_tokens=min(prompt.cached_tokens or 0, prompt_tokens) if prompt is not None else 0,
        reasoning_tokens=(output.reasoning_tokens or 0) if output is not None else 0,
    )


def _cost(answer: Answer, priced: float | None) -> float | None:
    """The cost at the caller's prices; without them, the cost that the server reports."""
    return priced if priced is not None or answer.usage is None else answer.usage.cost


def pricing(price: Price | None, answer: Answer) -> Callable[[int, int], float | None]:
    """A function from prompt and output tokens of the answer to US dollars."""
    if price is None:
        return _unknown_cost
    details = answer.usage.prompt_tokens_details if answer.usage is not None else None
    return partial(price.cost, cached_tokens=(details.cached_tokens or 0) if details is not None else 0)


def _unknown_cost(prompt_tokens: int, output_tokens: int) -> float | None:
    return None


def error_words(error: object) -> str:
    """The message of an error object of the API."""
    if isinstance(error, dict):
        words: Any = error.get("message")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return str(words if words is not None else error)  # pyright: ignore[reportUnknownArgumentType]
    return str(error)


def _request(call: CalledTool, turn: int, place: int) -> ToolRequest:
    arguments = call.function.arguments
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    # A server that names no id gets one that is unique within the conversation.
    return ToolRequest(id=call.id or f"call-{turn}-{place}", name=call.function.name or "", arguments=arguments)


def words_of(parts: list[dict[str, Any]]) -> str:
    """The text of a content that is a list of parts."""
    return "\n".join(str(part["text"]) for part in parts if "text" in part)
