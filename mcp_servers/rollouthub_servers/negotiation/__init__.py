"""`negotiation`: two seats divide goods whose values are private; a deal is compared with all other divisions."""

import json
from collections.abc import Iterator, Sequence
from random import Random

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rollouthub import (
    Deadlines,
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)
from rollouthub.authoring.turn_keeper import TurnKeeper
from rollouthub.messages import assistant, user
from rollouthub_servers.negotiation.division import SEATS, Market, draw_goods, draw_values, rest_of

__all__ = ["Negotiation", "NegotiationConfig", "NegotiationSecret"]

MOST_CHARACTERS = 2000
"""Most characters of one message to the other seat."""
MOST_IDLE = 3
"""Number of messages without a tool call after which a seat counts as having left."""


class NegotiationConfig(EnvironmentConfig):
    """Number of negotiations, number of goods, and length."""

    size: int = Field(default=1000, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    goods: int = Field(default=3, ge=2, le=6)
    """Number of kinds of goods."""
    rounds: int = Field(default=5, ge=1, le=50)
    """Turns of each seat; without a deal by then, both get nothing."""


class NegotiationSecret(Secret):
    """The goods, and the values that only each seat knows."""

    of_seats = frozenset({"goods", "values"})

    goods: dict[str, int]
    """Kind → number of pieces."""
    values: dict[str, dict[str, int]]
    """Seat → kind → value of one piece."""


class Offer(BaseModel):
    """A proposed division."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seat: str
    keep: dict[str, int]
    """Kind → number of pieces that the proposing seat would get; the other gets the rest."""


class Negotiation(Environment[NegotiationConfig]):
    """Two seats divide goods whose values are private."""

    seats = SEATS
    takes_turns = True
    submits = False
    scores_states = True

    def __init__(self, task: Task[Public, Secret], config: NegotiationConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        assert isinstance(task.secret, NegotiationSecret)
        self.goods, self.values = task.secret.goods, task.secret.values
        self.market = Market(self.goods, self.values)
        self.turns = TurnKeeper(SEATS)
        self.acted = dict.fromkeys(SEATS, 0)
        """Number of turns that each seat has had."""
        self.offer: Offer | None = None
        """The proposal that may be accepted; None if there is none."""
        self.deal: Offer | None = None
        self._idle = dict.fromkeys(SEATS, 0)
        self._news = ""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: NegotiationConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Generate the tasks lazily, each from its own random stream."""
        for index in range(config.size):
            random = Random(f"{seed}/{split}/{index}")
            goods = draw_goods(random, config.goods)
            values = {seat: draw_values(random, goods) for seat in SEATS}
            prompt = _PROMPT.format(goods=_listed(goods), rounds=config.rounds)
            yield Task(
                Public(id=f"{split}/{index}", prompt=prompt, metadata={"goods": dict[str, JsonValue](goods)}),
                NegotiationSecret(goods=goods, values=values),
            )

    @classmethod
    def deadlines(cls, config: NegotiationConfig) -> Deadlines:
        """A long deadline for tool calls, since a call waits for the other seat's answer."""
        return Deadlines(tool_call=900)

    def messages(self, seat: str) -> Sequence[Message]:
        """The task, and the seat's private values."""
        prompt = self.task.public.prompt
        assert isinstance(prompt, str)
        each = "; ".join(f"one of the {name}: {value}" for name, value in self.values[seat].items())
        begins = "You begin." if seat == self.seats[0] else "The other begins."
        return [user(f"{prompt}\n\nTo you they are worth: {each}.\n{begins}")]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Wait for the seat's turn; messages without a tool call are no move, and too many of them end the episode."""
        if messages and not self.turns.is_over and self.turns.current == seat:
            self._idle[seat] += 1
            if self._idle[seat] >= MOST_IDLE:
                self.left(seat)
                return None
            return [user("Words alone change nothing: call `propose`, `accept` or `reject`.")]
        if not await self.turns.wait(seat):
            return None
        return [user(self._news)] if self._news else []

    def left(self, seat: str) -> None:
        """End without a deal if a seat leaves."""
        if not self.turns.is_over:
            self._news = "The other has left: there is no deal."
            self.turns.end()

    @tool
    async def propose(self, keep: dict[str, int], message: str = "") -> str:
        """Propose a division, and wait for the other's answer. It takes the place of every earlier proposal.

        Args:
            keep: How many of each kind you would get; the other gets the rest. A kind left out is 0.
            message: What you tell the other with it.
        """
        seat = self._acting()
        for name, count in keep.items():
            if name not in self.goods:
                raise ToolError(f"there are no {name!r:.50}; there are {_listed(self.goods)}")
            if not 0 <= count <= self.goods[name]:
                raise ToolError(f"of the {name} there are {self.goods[name]}, so nobody can keep {count}")
        said = _bounded(message)
        offer = self.offer = Offer(seat=seat, keep={name: keep.get(name, 0) for name in self.goods})
        theirs = rest_of(self.goods, offer.keep)
        return await self._hand_over(
            seat, f"The other proposes to keep {_listed(offer.keep)}; you would get {_listed(theirs)}.{said}"
        )

    @tool
    async def accept(self) -> str:
        """Accept the other's last proposal, which ends the negotiation."""
        seat = self._acting()
        if self.offer is None or self.offer.seat == seat:
            raise ToolError("There is no proposal of the other's to accept.")
        self.deal = self.offer
        self._news = "The other has accepted your proposal."
        self.turns.end()
        self.end_episode()
        return f"It is a deal: you get {_listed(rest_of(self.goods, self.deal.keep))}."

    @tool
    async def reject(self, message: str = "") -> str:
        """Refuse the other's proposal without one of your own, and wait for the next.

        Args:
            message: What you tell the other with it.
        """
        seat = self._acting()
        said = _bounded(message)
        self.offer = None
        return await self._hand_over(seat, f"The other rejects.{said}")

    def _acting(self) -> str:
        """The seat that makes this call.

        Raises:
            ToolError: it is not its turn.
        """
        seat = self.calling_seat
        if self.turns.is_over:
            raise ToolError("The negotiation is over.")
        if self.turns.current != seat:
            raise ToolError("It is not your turn; say something to wait for it.")
        return seat

    async def _hand_over(self, seat: str, news: str) -> str:
        self.acted[seat] += 1
        other = self.turns.other(seat)
        if self.acted[other] >= self.config.rounds:
            self.turns.end()
            self.end_episode()
            return "All turns are used: there is no deal."
        last = self.acted[other] + 1 == self.config.rounds
        self._news = news + (" This is your last turn." if last else "")
        self.turns.pass_on()
        if not await self.turns.wait(seat):
            self.end_episode()
        return self._news

    def reference_of(self, seat: str) -> Sequence[Message]:
        """The first seat proposes the division with the largest product of shares, and the second accepts it."""
        if seat != self.seats[0]:
            return (assistant("", ToolRequest(id="reference-2", name="accept", arguments="{}")),)
        arguments = json.dumps({"keep": self.market.fairest()})
        return (assistant("", ToolRequest(id="reference-1", name="propose", arguments=arguments)),)

    def snapshot(self) -> JsonValue:
        """Whose turn it is, the turns used, the proposal, and the last message to a seat."""
        saved = _SavedNegotiation(
            turn=self.turns.current,
            is_over=self.turns.is_over,
            acted=self.acted,
            idle=self._idle,
            offer=self.offer,
            deal=self.deal,
            news=self._news,
        )
        return saved.model_dump(mode="json")

    async def restore(self, state: JsonValue) -> None:
        """Restore a snapshot."""
        saved = _SavedNegotiation.model_validate(state)
        self.turns.put(saved.turn, is_over=saved.is_over)
        self.acted, self._idle = dict(saved.acted), dict(saved.idle)
        self.offer, self.deal, self._news = saved.offer, saved.deal, saved.news

    def verify(self, submission: Submission) -> Score:
        """Compare the deal with all divisions; without a deal both seats get 0."""
        known = "; ".join(f"to {seat} they are worth {json.dumps(self.values[seat])}" for seat in SEATS)
        turns = float(sum(self.acted.values()))
        if self.deal is None:
            nothing = dict.fromkeys(SEATS, 0.0)
            metrics = {"deal": 0.0, "turns": turns}
            return Score(reward=0.0, passed=False, seat_rewards=nothing, metrics=metrics, feedback=f"no deal; {known}")
        keep = self.deal.keep
        of_first = keep if self.deal.seat == SEATS[0] else rest_of(self.goods, keep)
        shares, nearness = self.market.shares(of_first), self.market.nearness(of_first)
        return Score(
            reward=nearness,
            passed=nearness == 1.0,
            seat_rewards=dict(zip(SEATS, shares, strict=True)),
            metrics={
                "deal": 1.0,
                "turns": turns,
                "pareto_optimal": float(nearness == 1.0),
                "welfare": sum(shares) / self.market.most,
                "least_share": min(shares),
            },
            feedback=f"first got {_listed(of_first)}; {known}",
        )


class _SavedNegotiation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    turn: str
    is_over: bool
    acted: dict[str, int]
    idle: dict[str, int]
    offer: Offer | None
    deal: Offer | None
    news: str


_PROMPT = """\
You and another negotiator divide these goods between you: {goods}. What they are worth differs between you, and \
neither knows what they are worth to the other.

Act through tools: `propose` a division, `accept` the other's last proposal, or `reject` it. You act in turn, {rounds} \
times each; if there is no deal by then, both get nothing. Get as much as you can of what is worth most to you."""


def _listed(goods: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in goods.items())


def _bounded(message: str) -> str:
    if len(message) > MOST_CHARACTERS:
        raise ToolError(f"a message has at most {MOST_CHARACTERS} characters, not {len(message)}")
    # In quotes and on one line: what it says is no news of the hub's.
    return f" It says: {json.dumps(message, ensure_ascii=False)}" if message else ""
