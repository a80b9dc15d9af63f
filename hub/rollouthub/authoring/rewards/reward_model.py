"""`RewardModel`: a scalar reward model behind HTTP, as a reward function of submissions or whole groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from anyio import to_thread

from rollouthub.authoring.rewards.reward_model_wire import Asked, one_number, request_of, rewards_of
from rollouthub.authoring.rewards.reward_server import RewardServer, ask_all
from rollouthub.authoring.rewards.shown_parts import answer_of, question_of, reference_of, shortened
from rollouthub.errors import ModelError, TaskError, VerifierError
from rollouthub.http.exchange import HttpPool
from rollouthub.score import Score, Submission
from rollouthub.task import Task

Route = Literal["pooling", "classify", "score", "get_reward"]


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
        if self.concurrency < 1:
            raise ValueError(f"concurrency={self.concurrency}: it takes at least one")
        if self.model is None and self.route != "get_reward":
            raise ValueError(f"/{self.route} wants the name of a model: give model=NAME")
        self._server.check()

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
        found = await ask_all((partial(self._rewards, batch) for batch in batches if batch), self.concurrency)
        return [Score(reward=reward) for rewards in found for reward in rewards]

    def _asked(self, task: Task[Any, Any], submission: Submission) -> Asked:
        answer = answer_of(submission, sees_conversation=self.sees_conversation)
        answer = shortened(answer, self.most_characters, "\n[…]\n")
        return Asked(question_of(task.public), answer, reference_of(task) or "")

    async def _rewards(self, batch: Sequence[Asked], pool: HttpPool) -> list[float]:
        server = self._server
        try:
            body = await to_thread.run_sync(request_of, self.route, self.model, batch)
        except (ModelError, TaskError, ValueError) as error:
            raise VerifierError(f"{server.at(self.route)} was not asked: {error}", retryable=False) from error
        answer = await server.post(pool, self.route, body)
        try:
            return [one_number(value, self.label) for value in rewards_of(self.route, answer, len(batch))]
        except ValueError as error:
            raise VerifierError(
                f"{server.at(self.route)} answered what is no reward: {error}", retryable=False
            ) from None

    @property
    def _server(self) -> RewardServer:
        return RewardServer(self.url, self.token, self.timeout_seconds, self.tries)
