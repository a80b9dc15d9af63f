"""Two seats, each with words, a tool and a picture of its own: what tests try to carry from one to the other."""

from collections.abc import Iterator, Sequence
from typing import Any

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, Text, tool
from rollouthub.authoring.conversation import Conversation
from rollouthub.messages import picture

PRIVATE = {"left": "SECRET-OF-LEFT", "right": "SECRET-OF-RIGHT"}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001"
    "a5f645400000000049454e44ae426082"
)


class PrivateTable(Environment[EnvironmentConfig]):
    """Two seats that talk, and keep something to themselves."""

    seats = ("left", "right")
    takes_turns = True
    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """One table."""
        yield Task(Public(id="one", prompt="Talk."), Secret())

    async def setup(self) -> None:
        """Nobody has spoken."""
        self.talk = Conversation(self.seats, rounds=3, order="free")

    def messages(self, seat: str) -> Sequence[Message]:
        """What only this seat is told."""
        shown: tuple[Any, ...] = (Text(text=f"You know {PRIVATE[seat]}."),)
        return [Message(role="user", content=(*shown, picture(PIXEL)) if seat == "right" else shown)]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """What the other says."""
        return await self.talk.reply(seat, messages)

    def left(self, seat: str) -> None:
        """Go on without one."""
        self.talk.leave(seat)

    @tool(seats=("left",))
    async def left_card(self) -> str:
        """What only left reads."""
        return PRIVATE["left"]

    @tool(seats=("right",))
    async def right_card(self) -> str:
        """What only right reads."""
        return PRIVATE["right"]

    @tool
    async def who(self) -> str:
        """Who calls."""
        return self.calling_seat

    def verify(self, submission: Submission) -> Score:
        """Who said what, as the environment heard it."""
        said = [f"{said.seat}: {said.text}" for said in self.talk.said]
        return Score(reward=1.0, feedback=" | ".join(said))
