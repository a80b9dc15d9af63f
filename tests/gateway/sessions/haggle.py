"""Two seats that talk in turn, each with something that only it knows: what agents outside are let play."""

from collections.abc import Iterator, Sequence

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, tool
from rollouthub.authoring.conversation import Conversation
from rollouthub.messages import user

LIMITS = {"buyer": "You pay 9 at most.", "seller": "You want 5 at least."}


class Haggle(Environment[EnvironmentConfig]):
    """A buyer and a seller."""

    seats = ("buyer", "seller")
    takes_turns = True
    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """One."""
        yield Task(Public(id="pen", prompt="Agree on a price."), Secret())

    async def setup(self) -> None:
        """Nobody has spoken."""
        self.talk = Conversation(self.seats, rounds=2)

    def messages(self, seat: str) -> Sequence[Message]:
        """What only this seat is told."""
        return [user(LIMITS[seat])]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """What the other says."""
        return await self.talk.reply(seat, messages)

    def left(self, seat: str) -> None:
        """Go on without one."""
        self.talk.leave(seat)

    @tool(seats=("seller",))
    async def cost(self) -> int:
        """What the pen cost you."""
        return 5

    def verify(self, submission: Submission) -> Score:
        """Who said what, as the environment heard it; who said more earned more."""
        said = [f"{said.seat}: {said.text}" for said in self.talk.said]
        shares = {seat: float(sum(one.seat == seat for one in self.talk.said)) for seat in self.seats}
        return Score(reward=len(said) / 4, seat_rewards=shares, feedback=" | ".join(said))
