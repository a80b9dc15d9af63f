"""The reward server's routes: verdicts on answers, the same in OpenRLHF's format, and scores of pictures."""

import base64
import binascii
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from pydantic import BaseModel

from rollouthub.errors import ConfigError, NotOffered, UnknownNameError, VerifierError
from rollouthub.export.task_reference import TaskReference
from rollouthub.hosting.server.control_http import ControlHttp, NoRoute, json_of, need, parsed
from rollouthub.http.asgi import Guard, Receive, Scope, Send, answer, header, until_gone
from rollouthub.trainers.policy_answer import without_end_marks
from rollouthub.trainers.reward_server.image_scorer import PLAIN, ImageScorer, ScorerTimeout
from rollouthub.trainers.reward_server.request_bodies import Arrivals, TooSlow
from rollouthub.trainers.reward_server.request_places import Busy, Leaving, RequestPlaces, TooMuch
from rollouthub.trainers.reward_server.reward_wire import (
    ImageReply,
    ImageRequest,
    OpenRlhfReply,
    OpenRlhfRequest,
    RewardReply,
    RewardRequest,
)
from rollouthub.trainers.scorer import Asked, Scorer, Verdict


class RewardHttp(ControlHttp):
    """The routes `/v1/rewards`, `/openrlhf` and `/v1/images`, which need the token, and `/health`, which does not."""

    statuses: ClassVar = {
        TooSlow: 408,
        TooMuch: 413,
        Busy: 429,
        Leaving: 503,
        UnknownNameError: 400,
        ScorerTimeout: 504,
        VerifierError: 503,
    }

    def __init__(
        self,
        token: str | None,
        guard: Guard | None,
        scorer: Scorer | None,
        images: ImageScorer | None,
        *,
        seconds: float,
        most_requests: int,
        arrivals: Arrivals | None = None,
    ) -> None:
        """Without a token, every client is served."""
        super().__init__(token or "", guard)
        self._token, self._scorer, self._images = token, scorer, images
        self._seconds = seconds
        self._arrivals, self._places = arrivals or Arrivals(), RequestPlaces(most_requests)

    async def leave(self, seconds: float) -> None:
        """Accept no more requests; those being answered have `seconds` to finish, the rest get an error that says
        so.
        """
        self._arrivals.close()
        await self._places.close(seconds)

    def admits(self, scope: Scope) -> bool:
        """Whether the request has the token, as `Bearer` or as the password of `Basic`: a trainer that takes only a
        URL writes http://:TOKEN@HOST.
        """
        if self._token is None:
            return True
        kind, _, said = (header(scope, b"authorization") or b"").partition(b" ")
        if kind.lower() != b"basic":
            return super().admits(scope)
        try:
            _, _, password = base64.b64decode(said, validate=True).partition(b":")
        except binascii.Error:
            return False
        return hmac.compare_digest(password, self._token.encode())

    async def serve(self, parts: list[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it at the limits. A request whose body is still being received does not count
        against the limit of requests being answered.
        """
        work = self._work_at(parts)
        need(scope, "POST")
        with until_gone(scope):
            body = await self._arrivals.read(scope, receive)
            await answer(send, 200, json_of(await self._places.within(body, work)))

    def _work_at(self, parts: list[str]) -> Callable[[bytes], Awaitable[BaseModel]]:
        match parts:
            case ["v1", "rewards"]:
                return self._rewards
            case ["openrlhf"]:
                return self._openrlhf
            case ["v1", "images"]:
                return self._scored
            case _:
                raise NoRoute

    async def _rewards(self, body: bytes) -> RewardReply:
        request = parsed(body, RewardRequest)
        verdicts = await self._judged([(each.task, each.answer) for each in request.answers])
        return RewardReply(
            rewards=[verdict.reward for verdict in verdicts],
            components=[_components(verdict) for verdict in verdicts],
            passed=[None if verdict.score is None else verdict.score.passed for verdict in verdicts],
            problems=[verdict.problem for verdict in verdicts],
        )

    async def _openrlhf(self, body: bytes) -> OpenRlhfReply:
        """Answer an OpenRLHF request. Its reply format has no value for an unscored answer, so one unscored answer
        fails the whole request.
        """
        request = parsed(body, OpenRlhfRequest)
        if not len(request.query) == len(request.prompts) == len(request.labels):
            raise ConfigError("query, prompts and labels must be of one length")
        asked: list[Asked] = [
            (TaskReference.parse(label), response_of(query, prompt))
            for query, prompt, label in zip(request.query, request.prompts, request.labels, strict=True)
        ]
        verdicts = await self._judged(asked)
        rewards = [verdict.reward for verdict in verdicts if verdict.reward is not None]
        if len(rewards) < len(verdicts):
            problem = next(verdict.problem for verdict in verdicts if verdict.score is None)
            raise VerifierError(f"{len(verdicts) - len(rewards)} of {len(verdicts)} answers are unscored: {problem}")
        return OpenRlhfReply(rewards=rewards, scores=rewards, extra_logs=_shared(verdicts))

    async def _judged(self, asked: Sequence[Asked]) -> list[Verdict]:
        if self._scorer is None:
            raise NotOffered("this server was started without an environment; name one: hub serve rewards ENV")
        return await self._scorer.judge_all(asked, seconds=self._seconds)

    async def _scored(self, body: bytes) -> ImageReply:
        request = parsed(body, ImageRequest)
        if self._images is None:
            raise NotOffered(f"this server was started without a scorer of pictures; name one: --scorer {PLAIN}")
        return await self._images.score(request, self._seconds)


def response_of(query: str, prompt: str) -> str:
    """The text after the prompt, without the special tokens that end a turn.

    Raises:
        ConfigError: the query does not begin with its prompt, so the response cannot be separated from it.
    """
    before, found, response = query.partition(prompt) if prompt else ("", "", "")
    # A tokenizer may put a special token before a text, and nothing else.
    if not found or not _is_special(before):
        raise ConfigError("a query does not begin with its prompt, so what was said cannot be told from it")
    return without_end_marks(response)


_LONGEST_BEFORE = 1000
"""Most characters of special tokens before a prompt."""


def _is_special(text: str) -> bool:
    return len(text) <= _LONGEST_BEFORE and re.fullmatch(r"(?:\s*<[^<>\s]{1,40}>)*\s*", text) is not None


def _components(verdict: Verdict) -> dict[str, float]:
    return {} if verdict.score is None else {name: part.value for name, part in verdict.score.components.items()}


def _shared(verdicts: Sequence[Verdict]) -> dict[str, list[float]]:
    """The components that all verdicts have, each with a value per verdict."""
    each = [_components(verdict) for verdict in verdicts]
    names = set(each[0]).intersection(*each[1:]) if each else set[str]()
    return {name: [parts[name] for parts in each] for name in sorted(names)}
