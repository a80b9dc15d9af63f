"""`RewardModel`: a scalar reward model behind HTTP, as a reward function of submissions or whole groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio import to_thread

from rollouthub.authoring.rewards.reward_model_wire import Asked, one_number, request_of, rewards_of
from rollouthub.authoring.rewards.shown_parts import answer_of, question_of, reference_of, shortened
from rollouthub.errors import ModelError, TaskError, VerifierError
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.loopback import is_local_host
from rollouthub.http.no_answer import AnswerTooLarge, NoAnswer
from rollouthub.score import Score, Submission
from rollouthub.task import Task

Route = Literal["pooling", "classify", "score", "get_reward"]
MOST_REPLY_BYTES = 16 * 2**20
"""Most bytes of one answer."""
_TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE_SECONDS = 0.5


class _Again(Exception):
    """A failure that may pass: the request is tried again."""


@dataclass(frozen=True)
class RewardModel:
    """Asks a server for the reward of what was said; itself a reward function, alone or in a `WeightedReward`.

        reward = RewardModel("http://127.0.0.1:8000", model="skywork-rm")
        return await reward(self.task, submission)                       # in verify
        return await reward.score_group(self.task, submissions)          # in verify_group

    `route` is vLLM's `/pooling` (a reward model, its last number), `/classify` (the probability of `label`) or `/score`
    (how well the answer fits the question), or `/get_reward` as OpenRLHF serves it. Calls are bounded in time and size,
    and tried again where that may help; what fails then is the verifier's fault, and never a reward of 0.

    Raises:
        ValueError: the address is none, or would carry the token through a network in the clear.
    """

    url: str
    """Base URL of the server, without the route: `http://127.0.0.1:8000`."""
    route: Route = "pooling"
    model: str | None = None
    """The model's name on the server; `/get_reward` needs none."""
    token: str | None = field(default=None, repr=False)
    """Bearer token of the requests."""
    label: int | None = None
    """Index of the good class of `/classify`, or of the number of `/pooling` that counts; None is the last."""
    sees_conversation: bool = False
    """Whether the whole transcript is scored as the answer, instead of the final answer."""
    timeout_seconds: float = 60.0
    """Seconds of one try."""
    tries: int = 3
    concurrency: int = 16
    """Most requests at once for one group."""
    most_characters: int = 100_000
    """Most characters of an answer; a longer one loses its middle."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a reward model; write it like http://127.0.0.1:8000")
        if self.token and parts.scheme == "http" and not is_local_host(parts.hostname):
            raise ValueError(f"the token would go to {self.url} in the clear; give the server's https:// address")
        if self.tries < 1 or self.concurrency < 1:
            raise ValueError(f"tries={self.tries}, concurrency={self.concurrency}: it takes at least one")
        if self.model is None and self.route != "get_reward":
            raise ValueError(f"/{self.route} wants the name of a model: give model=NAME")

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """The reward of one submission.

        Raises:
            VerifierError: the server refused the request, gave an invalid answer, or failed in every try.
        """
        return (await self.score_group(task, [submission]))[0]

    async def score_group(self, task: Task[Any, Any], submissions: Sequence[Submission]) -> list[Score]:
        """The rewards of all submissions to a task, in their order.

        Raises:
            VerifierError: the server refused a request, gave an invalid answer, or failed in every try.
        """
        asked = [self._asked(task, submission) for submission in submissions]
        batches = [asked] if self.route == "get_reward" else [[each] for each in asked]
        found: list[list[float]] = [[] for _ in batches]
        failures: list[VerifierError] = []
        limiter = anyio.CapacityLimiter(self.concurrency)
        async with open_pool() as pool, anyio.create_task_group() as requests:

            async def ask(place: int, batch: Sequence[Asked]) -> None:
                async with limiter:
                    try:
                        found[place] = await self._rewards(pool, batch)
                    except VerifierError as error:
                        failures.append(error)
                        requests.cancel_scope.cancel()

            for place, batch in enumerate(batches):
                if batch:
                    requests.start_soon(ask, place, batch)
        if failures:
            raise failures[0]
        return [Score(reward=reward) for rewards in found for reward in rewards]

    def _asked(self, task: Task[Any, Any], submission: Submission) -> Asked:
        answer = answer_of(submission, sees_conversation=self.sees_conversation)
        answer = shortened(answer, self.most_characters, "\n[…]\n")
        return Asked(question_of(task.public), answer, reference_of(task) or "")

    async def _rewards(self, pool: HttpPool, batch: Sequence[Asked]) -> list[float]:
        try:
            body = await to_thread.run_sync(request_of, self.route, self.model, batch)
        except (ModelError, TaskError, ValueError) as error:
            raise VerifierError(f"{self._where} was not asked: {error}", retryable=False) from error
        problem = ""
        for number in range(self.tries):
            if number:
                await anyio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (number - 1))
            try:
                answer = await self._answer(pool, body)
            except (NoAnswer, _Again) as error:
                problem = str(error)
                continue
            try:
                numbers = [one_number(value, self.label) for value in rewards_of(self.route, answer, len(batch))]
            except ValueError as error:
                raise VerifierError(f"{self._where} answered what is no reward: {error}", retryable=False) from None
            return numbers
        raise VerifierError(f"{self._where} gave no reward in {self.tries} tries; the last: {problem}")

    @property
    def _where(self) -> str:
        return f"the reward model at {self.url.rstrip('/')}/{self.route}"

    async def _answer(self, pool: HttpPool, body: Mapping[str, Any]) -> object:
        """Send one request; returns the decoded answer.

        Raises:
            NoAnswer: there is none in time.
            VerifierError: the server refuses the request, or its answer is too large or no JSON.
        """
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        url, sent = f"{self.url.rstrip('/')}/{self.route}", msgspec.json.encode(body)
        try:
            answer = await pool.exchange(
                "POST", url, sent, headers, seconds=self.timeout_seconds, most_bytes=MOST_REPLY_BYTES
            )
        except AnswerTooLarge as error:
            raise VerifierError(f"{self._where}: {error}", retryable=False) from None
        if answer.status in _TRIED_AGAIN:
            raise _Again(answer.words)
        if answer.status != 200:
            raise VerifierError(f"{self._where} refused: {answer.words}", retryable=False)
        try:
            return answer.json()
        except ValueError:
            raise VerifierError(f"{self._where} answered what is no JSON: {answer.words}", retryable=False) from None
