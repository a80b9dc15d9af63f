"""`SglangChatEngine`: an SGLang server that samples after token ids and parses the answer, by one request.

Read in SGLang 0.5.23, below `sglang/srt/`: the chat route's `input_ids` (`entrypoints/openai/serving_chat.py`) carry no
media; `/generate` takes `image_data` beside `input_ids` in which one token stands for each picture, and puts in as many
as the model sees without encoding the rest anew (`SGLANG_MM_AVOID_RETOKENIZE`, on by default;
`_expand_input_ids` in `multimodal/processors/base_processor.py`).
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from rollouthub.errors import ModelError
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import data_url
from rollouthub.models.dialects import adapter_fields
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chat_wire import ToolSchemas, write_sampling
from rollouthub.models.direct.completion import Answer, as_reply, parse_answer
from rollouthub.models.tokens.sglang_chat import placed_wire
from rollouthub.models.tokens.sglang_engine import params_of, sampled_of
from rollouthub.models.tokens.sglang_server import CHAT, GENERATE, NEEDS, SglangServer, decoded
from rollouthub.models.tokens.token_engine import Sampled

TAKEN = frozenset(
    {
        *("model", "messages", "tools", "stream", "stream_options", "n", "logprobs", "top_logprobs", "rid"),
        *("input_ids", "return_token_ids", "return_prompt_token_ids", "lora_path", "continue_final_message"),
        "separate_reasoning",
    }
)
"""Request fields that a caller must not set in this lane."""


class _Seen(Struct):
    prompt_token_ids: list[int] = []


class SglangChatEngine:
    """Samples with the server's own defaults for the model, as its chat route does."""

    def __init__(self, server: SglangServer, fields: Mapping[str, Any] | None = None) -> None:
        """`fields` are those with which conversations are rendered, by which the server parses thoughts."""
        self._server, self._fields = server, dict(fields or {})
        self._tools = ToolSchemas()
        self._mark: int | None = None
        """The id that stands for a picture, once an answer told it."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer to a prompt alone; see `answer`."""
        request = ModelRequest((), session=session, media=media)
        return await self.answer(prompt_ids, sampling, request, media)

    async def answer(
        self, prompt_ids: Sequence[int], sampling: Sampling, request: ModelRequest, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer to a request after its prompt of token ids, and parse it, unless it shows pictures.

        Raises:
            ContextLimitError: the prompt is too long.
            ModelError: the server failed, refused, or answered another prompt.
        """
        if media:
            return await self._answer_to_pictures(prompt_ids, sampling, request, media)
        body: dict[str, Any] = {
            "messages": [placed_wire(message) for message in request.messages] or [{"role": "user", "content": ""}],
            "input_ids": prompt_ids,
            "logprobs": True,
            "return_token_ids": True,
            **self._fields,
            **self._adapter(request),
        }
        if request.tools:
            body["tools"] = self._tools.encoded(request.tools)
        write_sampling(body, sampling, TAKEN)
        said, failures = await self._server.call(CHAT, body, session=request.session)
        try:
            answer = parse_answer(said, takes_broken=True)
            reply, _ = as_reply(answer, turn=len(request.messages), version_header=None, price=_no_price, retries=0)
        except BadAnswer as error:
            raise self._server.bad_answer(CHAT, error) from None
        self._check_prompt(answer.choices[0].prompt_token_ids, prompt_ids)
        return _sampled(reply, answer, failures)

    async def _answer_to_pictures(
        self, prompt_ids: Sequence[int], sampling: Sampling, request: ModelRequest, media: Mapping[str, bytes]
    ) -> Sampled:
        pictures = [data_url(raw) for raw in media.values()]
        if others := [url for url in pictures if not url.startswith("data:image/")]:
            raise ModelError(
                f"{self._server.name}: the conversation shows {others[0][5:40].partition(';')[0]}, and SGLang takes "
                "only pictures beside token ids; take --lane direct",
                retryable=False,
            )
        if self._mark is not None and list(prompt_ids).count(self._mark) > len(pictures):
            # SGLang would take each for a picture. Where none is left for one, it never answers.
            raise ModelError(
                f"{self._server.name}: the model has sampled the token {self._mark}, which stands for a picture, and "
                "SGLang cannot tell it from one; set a logit_bias against it, or take --lane direct",
                retryable=False,
            )
        body: dict[str, Any] = {
            "input_ids": prompt_ids,
            "sampling_params": params_of(sampling),
            "return_logprob": True,
            "return_prompt_token_ids": True,
            "image_data": pictures,
            **self._adapter(request),
        }
        said, failures = await self._server.call(GENERATE, body, session=request.session)
        found: dict[str, Any] = decoded(self._server, GENERATE, said, dict[str, Any])
        seen = decoded(self._server, GENERATE, said, _Seen).prompt_token_ids
        if not is_expansion(prompt_ids, seen, len(pictures)):
            raise self._another_prompt("start it without SGLANG_MM_AVOID_RETOKENIZE=0")
        self._mark = next(
            (after for before, after in zip(prompt_ids, seen, strict=False) if before != after), self._mark
        )
        return sampled_of(found, self._server.owner, prompt_ids=seen, retries=failures)

    def _adapter(self, request: ModelRequest) -> dict[str, Any]:
        return adapter_fields(request.adapter, "sglang", self._server.owner) if request.adapter else {}

    def _check_prompt(self, seen: Sequence[int] | None, sent: Sequence[int]) -> None:
        """Refuse an answer to another prompt: an older server ignores the ids, and renders the messages."""
        if seen is None or list(seen) != list(sent):
            raise self._another_prompt(f"the tokens lane needs {NEEDS}")

    def _another_prompt(self, hint: str) -> ModelError:
        return ModelError(
            f"{self._server.owner} did not answer the prompt of token ids that was sent: {hint}, or take --lane direct",
            retryable=False,
        )


def is_expansion(sent: Sequence[int], seen: Sequence[int], count: int) -> bool:
    """Whether `seen` is `sent` with a single id, which stands for each of `count` pictures, repeated; nothing else may
    differ.
    """
    sent_runs = [(token, len(list(run))) for token, run in groupby(sent)]
    seen_runs = [(token, len(list(run))) for token, run in groupby(seen)]
    if [token for token, _ in sent_runs] != [token for token, _ in seen_runs]:
        return False
    changed = [
        (token, before, after)
        for (token, before), (_, after) in zip(sent_runs, seen_runs, strict=True)
        if before != after
    ]
    return (
        len({token for token, _, _ in changed}) <= 1
        and all(after > before for _, before, after in changed)
        and sum(before for _, before, _ in changed) <= count
    )


def _sampled(reply: ModelReply, answer: Answer, failures: int) -> Sampled:
    choice = answer.choices[0]
    ids, versions = reply.output_token_ids, reply.policy_versions
    reason = choice.finish_reason or "stop"
    return Sampled(
        token_ids=[] if ids is None else ids.tolist(),
        logprobs=None if reply.output_logprobs is None else reply.output_logprobs.tolist(),
        finish_reason="stop" if reason == "tool_calls" else reason,
        versions=reply.policy_version if versions is None else versions.tolist(),
        ending=int(isinstance(choice.matched_stop, int)),
        retries=failures,
        message=reply.message,
    )


def _no_price(prompt_tokens: int, output_tokens: int) -> float | None:
    return None
