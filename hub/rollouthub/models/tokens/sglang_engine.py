"""`SglangEngine`: SGLang servers as a token engine, by `/generate` with `input_ids`.

Read in SGLang 0.5.23: `sglang/srt/managers/io_struct.py` (`GenerateReqInput`), `sglang/srt/utils/weight_versions.py`.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any, cast

import msgspec

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.messages import data_url
from rollouthub.models.address import normal_base_url
from rollouthub.models.dialects import SESSION_HEADERS
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.completion import MOST_REASON
from rollouthub.models.tokens.sglang_server import check_sizes
from rollouthub.models.tokens.token_engine import Sampled
from rollouthub.models.weight_spans import WeightSpan, span_versions, version_number

_ASK_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


@asynccontextmanager
async def open_sglang_engine(
    base_urls: str | Sequence[str], *, api_key: str | None = None, sees: bool = False, mark: int | None = None
) -> AsyncGenerator["SglangEngine"]:
    """A token engine over SGLang servers of one model, or over its router; for a `TokenModel`.

        async with open_sglang_engine("http://127.0.0.1:30000") as engine:
            model = TokenModel("hosted_vllm/policy", engine, HfChatFormat(tokenizer))

    Of several servers each session has one, whose prefix cache holds it. `sees` says whether the policy takes pictures.
    Give `mark` where prompts hold all of a picture's tokens (`PromptPictures.mark`); see `SglangEngine`.

    Raises:
        ConfigError: a URL is invalid.
    """
    given = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
    urls = [f"{normal_base_url(url).removesuffix('/v1')}/generate" for url in given]
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    async with open_pool(headers=headers) as pool:
        yield SglangEngine(urls, pool, sees=sees, mark=mark)


class SglangEngine:
    """A `TokenEngine` over SGLang servers."""

    def __init__(self, urls: Sequence[str], pool: HttpPool, *, sees: bool = False, mark: int | None = None) -> None:
        """`urls` are the addresses of `/generate`; `sees` says whether the policy takes pictures.

        `mark` is the id that prompts repeat for a picture. Each picture's is then sent once, and the server must put in
        the same ids again: SGLang 0.5.23 never answers a prompt with more marks than pictures.
        """
        self._urls, self._pool, self._sees, self._mark = tuple(urls), pool, sees or mark is not None, mark

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ModelError: the server failed, its answer is invalid, or the conversation shows pictures to a text-only
            policy.
        """
        if media and not self._sees:
            raise ModelError("the conversation shows pictures, and the policy has no processor", retryable=False)
        body: dict[str, Any] = {
            "input_ids": list(prompt_ids),
            "sampling_params": params_of(sampling),
            "return_logprob": True,
        }
        if media:
            body["image_data"] = [data_url(raw) for raw in media.values()]
        if media and self._mark is not None:
            body |= {"input_ids": marked_once(prompt_ids, self._mark, len(media)), "return_prompt_token_ids": True}
        headers = {"Content-Type": "application/json", SESSION_HEADERS["sglang"]: session}
        url = self._urls[int.from_bytes(blake2b(session.encode(), digest_size=8).digest()) % len(self._urls)]
        try:
            answer = await self._pool.exchange("POST", url, msgspec.json.encode(body), headers, seconds=None)
            if answer.status == 200:
                check_sizes(answer.body)
                found = answer.json()
                sampled = sampled_of(found, url)  # first: it refuses what is no object
                self._check_prompt(found, prompt_ids, url, shows=bool(media))
                return sampled
        except NoAnswer as error:
            raise ModelError(f"no answer from {url}: {error}") from error
        except (ValueError, BadAnswer) as error:
            raise ModelError(f"{url} answered no JSON of tokens: {error}") from error
        again = answer.status in _ASK_AGAIN
        raise ModelError(f"{url} answered {answer.words}", status=answer.status, retryable=again)

    def _check_prompt(self, found: Any, sent: Sequence[int], url: str, *, shows: bool) -> None:
        if shows and self._mark is not None and found.get("prompt_token_ids") != list(sent):
            raise ModelError(
                f"{url} saw another prompt than the ids with pictures that were sent; it needs SGLang 0.5.23 or later, "
                "without SGLANG_MM_AVOID_RETOKENIZE=0, and the processor that rendered them",
                retryable=False,
            )


def marked_once(prompt_ids: Sequence[int], mark: int, count: int) -> list[int]:
    """The ids with one mark for each of `count` pictures.

    Raises:
        ModelError: the marks are not those of as many pictures, as where the policy sampled one.
    """
    ids = list(prompt_ids)
    kept = [token for place, token in enumerate(ids) if token != mark or not place or ids[place - 1] != mark]
    if (runs := kept.count(mark)) != count:
        raise ModelError(f"the prompt marks {runs} pictures by token {mark}, and shows {count}", retryable=False)
    return kept


def params_of(sampling: Sampling) -> dict[str, Any]:
    """The hub's sampling settings as SGLang's parameters; `extra` holds further ones."""
    named = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_new_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) if sampling.stop else None,
        "sampling_seed": sampling.seed,
    }
    return {**sampling.extra, **{name: value for name, value in named.items() if value is not None}}


def sampled_of(answer: object, origin: str, *, prompt_ids: Sequence[int] | None = None, retries: int = 0) -> Sampled:
    """The sampled tokens and log-probabilities in an answer of `/generate`, with a version for each token where weights
    changed in mid-answer.

    Raises:
        ModelError: the answer lacks the tokens that `return_logprob` requests.
    """
    try:
        meta = cast(Any, answer)["meta_info"]
        reason = str(meta["finish_reason"]["type"])[:MOST_REASON]
        given = meta.get("output_token_logprobs") if reason == "abort" else meta["output_token_logprobs"]
        pairs = [(float(pair[0]), int(pair[1])) for pair in given or ()]
        spans = msgspec.convert(meta.get("weight_versions") or [], list[WeightSpan])
        version = meta.get("weight_version")
        matched = meta["finish_reason"].get("matched")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, msgspec.ValidationError) as error:
        raise ModelError(f"{origin} gave no tokens with log-probabilities: {error!r}", retryable=False) from error
    ids, logprobs = [token for _, token in pairs], [logprob for logprob, _ in pairs]
    return Sampled(
        ids,
        logprobs,
        reason,
        span_versions(spans, len(ids)) if len(spans) > 1 else version_number(version),
        ending=int(isinstance(matched, int)),
        retries=retries,
        prompt_ids=prompt_ids,
    )
