"""An SGLang server's routes for token ids.

Read in SGLang 0.5.23, all below `sglang/srt/`:
- `/v1/tokenize` with `messages` renders by the server's template (`entrypoints/openai/serving_tokenize.py`);
  `add_generation_prompt` is taken with a Jinja template alone.
- `/v1/chat/completions` takes `input_ids` in place of the rendered messages, and `return_token_ids`
  (`ChatCompletionRequest` in `entrypoints/openai/protocol.py`, `_process_messages` in `serving_chat.py`).
- `/abort_request` ends a request by its `rid` (`entrypoints/http_server.py`). A closed connection ends it, too, after
  up to four seconds (`_REQUEST_STATE_WAIT_TIMEOUT` in `managers/tokenizer_manager.py`). With `--admin-api-key`, it is
  refused to the key of requests, and the connection's end has to do.
"""

import uuid
from typing import Any

import anyio
import msgspec
from yarl import URL

from rollouthub.http.exchange import MAX_ANSWER_BYTES
from rollouthub.http.no_answer import NoAnswer
from rollouthub.models.direct.answer_bounds import BadAnswer, check_length
from rollouthub.models.retry import TryFailed
from rollouthub.models.tokens.token_server import RouteMissing, TokenServer

TOKENIZE = "/v1/tokenize"
DETOKENIZE = "/v1/detokenize"
CHAT = "/v1/chat/completions"
GENERATE = "/generate"
ABORT = "/abort_request"
INFO = "/model_info"
SEPARATE_REASONING = "/separate_reasoning"
PARSE_CALLS = "/parse_function_call"
NEEDS = "SGLang 0.5.23 or later; start such a server"
_SAMPLING = frozenset({CHAT, GENERATE})
_ABORT_SECONDS = 5.0


class ServedParsers(msgspec.Struct):
    """The parsers that a server was started with."""

    reasoning_parser: str | None = None
    tool_call_parser: str | None = None


class SglangServer(TokenServer):
    """An SGLang server."""

    _parsers: ServedParsers | None = None

    async def answer(
        self,
        route: str,
        body: bytes,
        headers: dict[str, str],
        most_bytes: int = MAX_ANSWER_BYTES,
        *,
        verb: str = "POST",
    ) -> bytes:
        """The body of a route's answer, in one try; a request that is cancelled is ended on the server.

        Raises:
            TryFailed: there was no answer, or the server refused.
        """
        if route not in _SAMPLING:
            return await super().answer(route, body, headers, most_bytes, verb=verb)
        rid = uuid.uuid4().hex
        try:
            return await super().answer(route, body[:-1] + b',"rid":"%s"}' % rid.encode(), headers, most_bytes)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._abort(rid)
            raise

    def names_model(self, route: str) -> bool:
        """Whether requests to a route have the model's name; SGLang's own routes have no field for it."""
        return route.startswith("/v1/")

    async def _abort(self, rid: str) -> None:
        try:
            url = URL(self.root + ABORT)
            await self.pool.exchange("POST", url, msgspec.json.encode({"rid": rid}), seconds=_ABORT_SECONDS)
        except NoAnswer:
            pass  # the connection is closed, which ends the request, too

    async def parsers(self) -> ServedParsers:
        """The parsers that the server was started with, asked for once.

        Raises:
            ModelError: the server did not say it.
        """
        if self._parsers is None:
            try:
                said = await self.answer(INFO, b"", {}, verb="GET")
                self._parsers = msgspec.json.decode(said, type=ServedParsers)
            except TryFailed as failed:
                raise failed.as_error(self.owner, 1, str) from failed.__cause__
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self.bad_answer(INFO, error) from None
        return self._parsers

    def missing(self, route: str, status: int, body: bytes) -> RouteMissing | None:
        """The error if an answer means that the route does not exist."""
        return RouteMissing(route, status, "", NEEDS) if status in (404, 405) and route != CHAT else None


def check_sizes(answer: bytes) -> None:
    """Refuse an answer of SGLang's own routes that is longer than tokens of any context make it.

    A sampled token is a list of three values (`[logprob, id, text]`), and one of a prompt a number.

    Raises:
        BadAnswer: it is.
    """
    check_length(answer.count(b"["))
    check_length(answer.count(b"{"))
    check_length(answer.count(b",") // 4)


def decoded(server: TokenServer, route: str, answer: bytes, kind: Any) -> Any:
    """An answer's body as a struct.

    Raises:
        ModelError: the body is none, or has more values than tokens of any context.
    """
    try:
        check_sizes(answer)
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadAnswer) as error:
        raise server.bad_answer(route, error) from None
