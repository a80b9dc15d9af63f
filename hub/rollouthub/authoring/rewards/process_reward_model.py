"""`ProcessRewardModel`: a reward model behind vLLM that scores each step of an agent's turns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, prod
from typing import Any, Literal, cast

from rollouthub.authoring.rewards.judge_verdict import storable
from rollouthub.authoring.rewards.reward_model_wire import one_number, rewards_of
from rollouthub.authoring.rewards.reward_server import RewardServer, ask_all
from rollouthub.errors import VerifierError
from rollouthub.http.exchange import HttpPool
from rollouthub.messages import Message, media_of
from rollouthub.score import Score, SpanReward, Submission, SubmittedTurn
from rollouthub.task import Task

Chat = list[dict[str, str]]
_POOLING, _TOKENIZE = "pooling", "tokenize"
_TASK = "token_classify"
"""vLLM's name of pooling with a row for each token, or for each step's mark."""


@dataclass(frozen=True)
class ProcessRewardModel:
    """A reward function that asks a server for the reward of each step of each turn.

        class Proofs(Environment[EnvironmentConfig]):
            reads_turns = True

            async def verify(self, submission):
                steps = ProcessRewardModel("http://127.0.0.1:8000", "Qwen2.5-Math-PRM-7B")
                return await steps(self.task, submission)

    `separator` divides a turn's text into steps, and each step gets a span of characters in `span_rewards`. The reward
    is their mean, or as `combine` says; an agent that said nothing gets 0. The server is vLLM with `--runner pooling`;
    a refusal or an invalid answer is the verifier's fault.

    Raises:
        ValueError: the address is invalid, or would send the token over a network in the clear; or another setting is.
    """

    url: str
    """Base URL of the server, without the route: `http://127.0.0.1:8000`."""
    model: str
    """The model's name on the server."""
    tag: str | None = "<extra_0>"
    """The mark that the model reads at the end of each step; the row of this token scores the step.

    None: the row of the step's last token scores it.
    """
    separator: str = r"\n\s*\n"
    """Regular expression that matches between two steps."""
    label: int | None = None
    """Index of the reward in a row; None takes the last number."""
    combine: Literal["mean", "min", "product", "last"] = "mean"
    """How the rewards of steps are combined to the reward."""
    token: str | None = field(default=None, repr=False)
    """Bearer token of the requests."""
    timeout_seconds: float = 60.0
    """Time limit of one try."""
    tries: int = 3
    """Maximum number of tries of one request."""
    concurrency: int = 16
    """Maximum number of turns scored at once."""
    most_steps: int = 512
    """Maximum number of steps of a turn; the last step holds the rest of the text."""
    most_characters: int = 100_000
    """Maximum number of characters of a turn that are scored; the text after them gets no reward."""

    def __post_init__(self) -> None:
        if self.tag is not None and len(self.tag) < 2:
            raise ValueError(f"tag={self.tag!r}: a mark needs at least two characters; None stands for no mark")
        if self.concurrency < 1 or self.most_steps < 1:
            raise ValueError(f"concurrency={self.concurrency}, most_steps={self.most_steps}: it takes at least one")
        re.compile(self.separator)
        self._server.check()

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Score the steps of a submission's turns.

        Raises:
            VerifierError: the submission has no turns, or shows pictures; the server refused the request, gave an
                invalid answer, or failed in every try.
        """
        turns = submission.turns
        if not turns:
            raise VerifierError(
                "a process reward model scores turns, and the submission has none; set `reads_turns = True` on the "
                "environment's class",
                retryable=False,
            )
        asks = (partial(self._spans, turn, chat, length) for turn, chat, length in self._chats(turns))
        found = await ask_all(asks, self.concurrency)
        spans = tuple(span for of_turn in found for span in of_turn)
        reward = self._combined([span.reward for span in spans])
        if not isfinite(reward):
            raise VerifierError(
                f"the {self.combine} of {len(spans)} rewards of steps is no finite number; the rewards of "
                f"{self._server.at(_POOLING)} are too large",
                retryable=False,
            )
        return Score(reward=reward, span_rewards=spans)

    def _combined(self, rewards: Sequence[float]) -> float:
        if not rewards:
            return 0.0
        match self.combine:
            case "mean":
                return sum(reward / len(rewards) for reward in rewards)
            case "min":
                return min(rewards)
            case "product":
                return prod(rewards)
            case "last":
                return rewards[-1]

    def _chats(self, turns: Sequence[SubmittedTurn]) -> Iterator[tuple[SubmittedTurn, Chat, int]]:
        """Each turn with words, its seat's chat, and how many messages of the chat came before the turn.

        All turns of a seat share one chat, because a long episode would need many copies of it.
        """
        said: dict[str, Chat] = {}
        for turn in turns:
            chat = said.setdefault(turn.seat, [])
            chat += map(self._written, turn.messages)
            if turn.response.text.strip():
                yield turn, chat, len(chat)
            chat.append(self._written(turn.response))

    def _written(self, message: Message) -> dict[str, str]:
        """A message for the model's chat template; marks that its text holds are broken up."""
        if media_of([message]):
            raise VerifierError(
                "a process reward model takes text alone, and the conversation shows pictures, sounds or files",
                retryable=False,
            )
        role = "user" if message.role == "tool" else message.role
        return {"role": role, "content": self._unmarked(message.text)}

    def _unmarked(self, text: str) -> str:
        text = storable(text)
        return text if self.tag is None else text.replace(self.tag, f"{self.tag[0]} {self.tag[1:]}")

    async def _spans(self, turn: SubmittedTurn, seats_chat: Chat, length: int, pool: HttpPool) -> list[SpanReward]:
        """The rewards of a turn's steps; the turn follows the first `length` messages of its seat's chat."""
        text, chat = turn.response.text, seats_chat[:length]
        places = list(steps_of(text[: self.most_characters], self.separator, self.most_steps))
        steps = [self._unmarked(text[begin:end]) for begin, end in places]
        try:
            if self.tag is None:
                rows = await self._last_rows(pool, chat, steps)
            else:
                rows = await self._marked_rows(pool, chat, steps, self.tag)
            rewards = [one_number(row, self.label) for row in rows]
        except ValueError as error:
            raise VerifierError(
                f"{self._server.at(_POOLING)} gave an answer without valid rewards of the steps: {error}",
                retryable=False,
            ) from None
        return [
            SpanReward(turn=turn.index, start=begin, end=end, reward=reward, unit="character")
            for (begin, end), reward in zip(places, rewards, strict=True)
        ]

    async def _marked_rows(self, pool: HttpPool, chat: Chat, steps: Sequence[str], tag: str) -> list[object]:
        """The row of the mark after each step.

        vLLM's step pooling answers with these rows alone, its other poolings with a row for each token.
        """
        asked = [*chat, {"role": "assistant", "content": "".join(f"{step}{tag}" for step in steps)}]
        rows = await self._rows(pool, {"messages": asked, "add_generation_prompt": False})
        if len(rows) == len(steps):
            return rows
        ids = await self._ids(pool, {"messages": asked, "add_generation_prompt": False})
        mark = await self._ids(pool, {"prompt": tag, "add_special_tokens": False})
        if len(mark) != 1:
            raise ValueError(f"the mark {tag!r} is {len(mark)} tokens of the model, and must be one; set `tag` to one")
        places = [place for place, token in enumerate(ids) if token == mark[0]]
        if len(ids) != len(rows) or len(places) != len(steps):
            raise ValueError(
                f"{len(rows)} rows for {len(steps)} steps, whose marks are at {len(places)} of {len(ids)} tokens"
            )
        return [rows[place] for place in places]

    async def _last_rows(self, pool: HttpPool, chat: Chat, steps: Sequence[str]) -> list[object]:
        """The row of each step's last token; each step is tokenized by itself, so that its last token is known."""
        ids = await self._ids(pool, {"messages": chat, "add_generation_prompt": True})
        gap = await self._ids(pool, {"prompt": "\n\n", "add_special_tokens": False})
        ends: list[int] = []
        for step in steps:
            tokens = await self._ids(pool, {"prompt": step, "add_special_tokens": False})
            if not tokens:
                raise ValueError(f"/{_TOKENIZE} gives a step of {len(step)} characters no tokens")
            ids += tokens
            ends.append(len(ids))
            ids += gap
        rows = await self._rows(pool, {"input": ids})
        if len(rows) != len(ids):
            raise ValueError(f"{len(rows)} rows for {len(ids)} tokens; serve the model with a row for each token")
        return [rows[end - 1] for end in ends]

    async def _rows(self, pool: HttpPool, what: Mapping[str, Any]) -> list[object]:
        answer = await self._server.post(pool, _POOLING, {"model": self.model, "task": _TASK, **what})
        (rows,) = rewards_of("pooling", answer, 1)
        if not isinstance(rows, list):
            raise ValueError(f"its data is a {type(rows).__name__}, no list")
        return cast("list[object]", rows)

    async def _ids(self, pool: HttpPool, what: Mapping[str, Any]) -> list[object]:
        answer = await self._server.post(pool, _TOKENIZE, {"model": self.model, **what})
        ids: object = cast("dict[str, object]", answer).get("tokens") if isinstance(answer, dict) else None
        if not isinstance(ids, list):
            raise ValueError(f"/{_TOKENIZE} gives no list of tokens")
        return cast("list[object]", ids)

    @property
    def _server(self) -> RewardServer:
        return RewardServer(self.url, self.token, self.timeout_seconds, self.tries)


def steps_of(text: str, separator: str, most: int) -> Iterator[tuple[int, int]]:
    """The begin and end of each step of a text, without the space around it; the step number `most` holds the rest of
    the text.
    """
    begin = count = 0
    for gap in re.finditer(separator, text):
        if count == most - 1:
            break
        if step := text[begin : gap.start()].strip():
            start = text.index(step, begin)
            yield start, start + len(step)
            count += 1
        begin = gap.end()
    if step := text[begin:].strip():
        start = text.index(step, begin)
        yield start, start + len(step)
